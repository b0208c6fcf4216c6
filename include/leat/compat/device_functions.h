/*
 * leat/compat/device_functions.h - defines functions for kernels, for C++14 and later: barriers, warp operations,
 * fences, atomics and arithmetic, with the vendors' names.
 *
 * Warps have 32 threads with consecutive numbers. Shuffles, votes, matches and reductions wait for the lanes of
 * their mask; kernel_support.h says how they end if some of these lanes do not arrive. __activemask() waits for
 * all lanes that can reach the same call, and returns them. Operands of atomics are converted to the type of the
 * variable, as in CUDA. All atomics are sequentially consistent. clock64() counts nanoseconds. Fast functions such
 * as __expf() are as exact as the ordinary functions.
 */
#ifndef LEAT_COMPAT_DEVICE_FUNCTIONS_H
#define LEAT_COMPAT_DEVICE_FUNCTIONS_H

#if defined(__cplusplus) && __cplusplus >= 201402L

#include <leat/compat/kernel_functions.h>

#include <limits>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

constexpr int warpSize = 32;

/* ---- barriers and fences ----------------------------------------------------------------------------------- */

static inline void __syncthreads()
{
    leat_keeps_place keeps;

    leat_block_wait();
}

static inline int __syncthreads_count(int predicate)
{
    leat_keeps_place keeps;

    return static_cast<int>(leat_block_vote(predicate).in_favour);
}

static inline int __syncthreads_and(int predicate)
{
    leat_keeps_place keeps;
    leat_block_votes votes = leat_block_vote(predicate);

    return votes.in_favour == votes.threads;
}

static inline int __syncthreads_or(int predicate)
{
    return __syncthreads_count(predicate) != 0;
}

static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __trap()
{
    leat_kernel_trap();
}

/* ---- time -------------------------------------------------------------------------------------------------- */

static inline long long clock64()
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

static inline void __nanosleep(unsigned nanoseconds)
{
    struct timespec rest = {0, static_cast<long>(nanoseconds % 1000000000)};

    nanosleep(&rest, nullptr);
}

/* ---- warps ------------------------------------------------------------------------------------------------- */

/* Returns the lane of the current thread in its warp. */
static inline unsigned leat_lane_number()
{
    return leat_thread_number() % LEAT_WARP_THREADS;
}

/* Performs a warp operation. combine() computes the field out of each lane from the fields in of all lanes.
 * Returns the lanes that took part. */
static inline unsigned leat_meet(unsigned mask, const void *in, void *out, unsigned source,
                                 void (*combine)(leat_lane *const *, uint32_t))
{
    leat_lane lane = {mask, 0, in, out, source, nullptr, combine};
    leat_keeps_place keeps;

    leat_warp_meet(leat_thread_number(), &lane);
    return lane.present;
}

/* Gives each lane the value of its source lane. If that lane did not take part, the lane gets its own value. */
template <class T> void leat_combine_shuffle(leat_lane *const *lanes, uint32_t present)
{
    for (uint32_t left = present; left; left &= left - 1) {
        const leat_lane *lane = lanes[__builtin_ctz(left)];
        const leat_lane *from = present >> lane->source & 1 ? lanes[lane->source] : lane;

        *static_cast<T *>(lane->out) = *static_cast<const T *>(from->in);
    }
}

template <class T> inline T leat_shuffle(unsigned mask, T value, unsigned source)
{
    T result = value;

    leat_meet(mask, &value, &result, source % LEAT_WARP_THREADS, leat_combine_shuffle<T>);
    return result;
}

/* What a lane contributes to a reduction. The operation of the first lane is applied in the order of the lanes. */
template <class T, class Operation> struct leat_reduced {
    T value;
    Operation operation;
};

template <class T, class Operation> void leat_combine_reduce(leat_lane *const *lanes, uint32_t present)
{
    typedef leat_reduced<T, Operation> brought;
    const brought *first = static_cast<const brought *>(lanes[__builtin_ctz(present)]->in);
    T result = first->value;

    for (uint32_t left = present & (present - 1); left; left &= left - 1)
        result = first->operation(result, static_cast<const brought *>(lanes[__builtin_ctz(left)]->in)->value);
    for (uint32_t left = present; left; left &= left - 1)
        *static_cast<T *>(lanes[__builtin_ctz(left)]->out) = result;
}

template <class T, class Operation> inline T leat_reduce(unsigned mask, T value, Operation operation)
{
    leat_reduced<T, Operation> brought = {value, operation};

    leat_meet(mask, &brought, &value, 0, leat_combine_reduce<T, Operation>);
    return value;
}

static inline void __syncwarp(unsigned mask = 0xffffffff)
{
    leat_meet(mask, nullptr, nullptr, 0, nullptr);
}

/* Always inline, because leat_warp_active() takes its return address as the place of the call in the kernel. */
static inline __attribute__((always_inline)) unsigned __activemask()
{
    leat_keeps_place keeps;

    return leat_warp_active(leat_thread_number());
}

/* Returns the lanes whose predicate is not 0. *present becomes all lanes that took part. */
static inline unsigned leat_ballot(unsigned mask, int predicate, unsigned *present)
{
    auto either = [](unsigned a, unsigned b) { return a | b; };
    unsigned lanes = predicate ? 1u << leat_lane_number() : 0u;
    leat_reduced<unsigned, decltype(either)> brought = {lanes, either};

    *present = leat_meet(mask, &brought, &lanes, 0, leat_combine_reduce<unsigned, decltype(either)>);
    return lanes;
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    unsigned present;

    return leat_ballot(mask, predicate, &present);
}

static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate)
{
    return leat_reduce(mask, predicate != 0, [](bool a, bool b) { return a && b; });
}

template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int width = warpSize)
{
    unsigned segment = leat_lane_number() & ~(static_cast<unsigned>(width) - 1);

    return leat_shuffle(mask, value,
                        segment + (static_cast<unsigned>(source) & (static_cast<unsigned>(width) - 1)));
}

template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize)
{
    unsigned lane = leat_lane_number(), segment = lane & ~(static_cast<unsigned>(width) - 1);

    return leat_shuffle(mask, value, lane - segment >= delta ? lane - delta : lane);
}

template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize)
{
    unsigned lane = leat_lane_number(), last = lane | (static_cast<unsigned>(width) - 1);

    return leat_shuffle(mask, value, last - lane >= delta ? lane + delta : lane);
}

template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize)
{
    unsigned lane = leat_lane_number(), last = lane | (static_cast<unsigned>(width) - 1);
    unsigned source = lane ^ static_cast<unsigned>(lanes);

    return leat_shuffle(mask, value, source <= last ? source : lane);
}

/* Gives each lane the set of the lanes that have the same value. */
template <class T> void leat_combine_match(leat_lane *const *lanes, uint32_t present)
{
    for (uint32_t left = present; left; left &= left - 1) {
        const leat_lane *lane = lanes[__builtin_ctz(left)];
        unsigned same = 0;

        for (uint32_t others = present; others; others &= others - 1) {
            int i = __builtin_ctz(others);

            if (*static_cast<const T *>(lanes[i]->in) == *static_cast<const T *>(lane->in))
                same |= 1u << i;
        }
        *static_cast<unsigned *>(lane->out) = same;
    }
}

template <class T> inline unsigned __match_any_sync(unsigned mask, T value)
{
    unsigned same = 0;

    leat_meet(mask, &value, &same, 0, leat_combine_match<T>);
    return same;
}

template <class T> inline unsigned __match_all_sync(unsigned mask, T value, int *all)
{
    unsigned same = 0, present = leat_meet(mask, &value, &same, 0, leat_combine_match<T>);

    *all = same == present;
    return *all ? same : 0;
}

#define LEAT_REDUCE_SYNC_(name, type, expression)                                                                 \
    static inline type __reduce_##name##_sync(unsigned mask, type value)                                          \
    {                                                                                                             \
        return leat_reduce(mask, value, [](type a, type b) { return expression; });                               \
    }

LEAT_REDUCE_SYNC_(add, unsigned, a + b)
LEAT_REDUCE_SYNC_(min, unsigned, a < b ? a : b)
LEAT_REDUCE_SYNC_(max, unsigned, a < b ? b : a)
LEAT_REDUCE_SYNC_(add, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
LEAT_REDUCE_SYNC_(min, int, a < b ? a : b)
LEAT_REDUCE_SYNC_(max, int, a < b ? b : a)
LEAT_REDUCE_SYNC_(and, unsigned, a &b)
LEAT_REDUCE_SYNC_(or, unsigned, a | b)
LEAT_REDUCE_SYNC_(xor, unsigned, a ^ b)

#undef LEAT_REDUCE_SYNC_

/* ---- atomics ----------------------------------------------------------------------------------------------- */

/* The type T. The compiler does not deduce T from an argument of this type, so it converts the argument to T. */
template <class T> struct leat_exactly {
    typedef T type;
};

template <class T>
inline T atomicCAS(T *at, typename leat_exactly<T>::type compare, typename leat_exactly<T>::type value)
{
    __atomic_compare_exchange(at, &compare, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return compare;
}

template <class T> inline T atomicExch(T *at, typename leat_exactly<T>::type value)
{
    T before;

    __atomic_exchange(at, &value, &before, __ATOMIC_SEQ_CST);
    return before;
}

/* Atomically replaces the value by change(value), and returns the old value. */
template <class T, class C> inline T leat_atomic_change(T *at, C change)
{
    T before, after;

    __atomic_load(at, &before, __ATOMIC_SEQ_CST);
    do {
        after = change(before);
    } while (!__atomic_compare_exchange(at, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return before;
}

template <class T> inline T leat_atomic_add(T *at, T value, std::true_type)
{
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}

template <class T> inline T leat_atomic_add(T *at, T value, std::false_type)
{
    return leat_atomic_change(at, [=](T now) { return static_cast<T>(now + value); });
}

template <class T> inline T atomicAdd(T *at, typename leat_exactly<T>::type value)
{
    return leat_atomic_add(at, value, std::is_integral<T>());
}

template <class T> inline T leat_atomic_sub(T *at, T value, std::true_type)
{
    return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST);
}

template <class T> inline T leat_atomic_sub(T *at, T value, std::false_type)
{
    return leat_atomic_change(at, [=](T now) { return static_cast<T>(now - value); });
}

template <class T> inline T atomicSub(T *at, typename leat_exactly<T>::type value)
{
    return leat_atomic_sub(at, value, std::is_integral<T>());
}

template <class T> inline T atomicMin(T *at, typename leat_exactly<T>::type value)
{
    return leat_atomic_change(at, [=](T now) { return value < now ? value : now; });
}

template <class T> inline T atomicMax(T *at, typename leat_exactly<T>::type value)
{
    return leat_atomic_change(at, [=](T now) { return now < value ? value : now; });
}

template <class T> inline T atomicAnd(T *at, typename leat_exactly<T>::type value)
{
    return __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST);
}

template <class T> inline T atomicOr(T *at, typename leat_exactly<T>::type value)
{
    return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST);
}

template <class T> inline T atomicXor(T *at, typename leat_exactly<T>::type value)
{
    return __atomic_fetch_xor(at, value, __ATOMIC_SEQ_CST);
}

/* Count up to last and then start again at 0, or count down to 0 and then start again at last. */
static inline unsigned atomicInc(unsigned *at, unsigned last)
{
    return leat_atomic_change(at, [=](unsigned now) { return now >= last ? 0 : now + 1; });
}

static inline unsigned atomicDec(unsigned *at, unsigned last)
{
    return leat_atomic_change(at, [=](unsigned now) { return now == 0 || now > last ? last : now - 1; });
}

/* Defines an atomic function for the scopes of a block and of the system. Both are the ordinary function. */
#define LEAT_ATOMIC_SCOPES_(name)                                                                                 \
    template <class T> inline T name##_block(T *at, typename leat_exactly<T>::type value)                         \
    {                                                                                                             \
        return name(at, value);                                                                                   \
    }                                                                                                             \
    template <class T> inline T name##_system(T *at, typename leat_exactly<T>::type value)                        \
    {                                                                                                             \
        return name(at, value);                                                                                   \
    }

LEAT_ATOMIC_SCOPES_(atomicAdd)
LEAT_ATOMIC_SCOPES_(atomicSub)
LEAT_ATOMIC_SCOPES_(atomicExch)
LEAT_ATOMIC_SCOPES_(atomicMin)
LEAT_ATOMIC_SCOPES_(atomicMax)
LEAT_ATOMIC_SCOPES_(atomicInc)
LEAT_ATOMIC_SCOPES_(atomicDec)
LEAT_ATOMIC_SCOPES_(atomicAnd)
LEAT_ATOMIC_SCOPES_(atomicOr)
LEAT_ATOMIC_SCOPES_(atomicXor)

#undef LEAT_ATOMIC_SCOPES_

template <class T>
inline T atomicCAS_block(T *at, typename leat_exactly<T>::type compare, typename leat_exactly<T>::type value)
{
    return atomicCAS(at, compare, value);
}

template <class T>
inline T atomicCAS_system(T *at, typename leat_exactly<T>::type compare, typename leat_exactly<T>::type value)
{
    return atomicCAS(at, compare, value);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------- */

/*
 * Declares a function as a template. Some programs define functions of the same name and type for host compilers.
 * Such a function does not conflict with a template, and the compiler prefers it.
 */
#define LEAT_FUNCTION_ template <class = void> inline

#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max
#define LEAT_MIN_MAX_(result, first, second)                                                                      \
    LEAT_FUNCTION_ result min(first a, second b)                                                                  \
    {                                                                                                             \
        return static_cast<result>(a) < static_cast<result>(b) ? static_cast<result>(a) : static_cast<result>(b); \
    }                                                                                                             \
    LEAT_FUNCTION_ result max(first a, second b)                                                                  \
    {                                                                                                             \
        return static_cast<result>(a) < static_cast<result>(b) ? static_cast<result>(b) : static_cast<result>(a); \
    }
#define LEAT_MIN_MAX_INTEGERS_(type)                                                                              \
    LEAT_MIN_MAX_(type, type, type)                                                                               \
    LEAT_MIN_MAX_(unsigned type, unsigned type, unsigned type)                                                    \
    LEAT_MIN_MAX_(unsigned type, unsigned type, type)                                                             \
    LEAT_MIN_MAX_(unsigned type, type, unsigned type)
#define LEAT_MIN_MAX_REALS_(result, first, second, suffix)                                                        \
    LEAT_FUNCTION_ result min(first a, second b)                                                                  \
    {                                                                                                             \
        return fmin##suffix(a, b);                                                                                \
    }                                                                                                             \
    LEAT_FUNCTION_ result max(first a, second b)                                                                  \
    {                                                                                                             \
        return fmax##suffix(a, b);                                                                                \
    }

LEAT_MIN_MAX_INTEGERS_(int)
LEAT_MIN_MAX_INTEGERS_(long)
LEAT_MIN_MAX_INTEGERS_(long long)
LEAT_MIN_MAX_REALS_(float, float, float, f)
LEAT_MIN_MAX_REALS_(double, double, double, )
LEAT_MIN_MAX_REALS_(double, float, double, )
LEAT_MIN_MAX_REALS_(double, double, float, )

#undef LEAT_MIN_MAX_
#undef LEAT_MIN_MAX_INTEGERS_
#undef LEAT_MIN_MAX_REALS_
#pragma pop_macro("min")
#pragma pop_macro("max")

#define LEAT_OF_ONE_(result, name, type, expression)                                                              \
    static inline result name(type x)                                                                             \
    {                                                                                                             \
        return expression;                                                                                        \
    }
#define LEAT_OF_TWO_(result, name, type, expression)                                                              \
    static inline result name(type x, type y)                                                                     \
    {                                                                                                             \
        return expression;                                                                                        \
    }

/* Reinterprets the bits of a value as another type of the same size. */
template <class To, class From> inline To leat_bits_as(From from)
{
    static_assert(sizeof(To) == sizeof(From), "of one size");
    To to;

    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned leat_bits_reversed(unsigned x)
{
    x = (x & 0x55555555) << 1 | (x >> 1 & 0x55555555);
    x = (x & 0x33333333) << 2 | (x >> 2 & 0x33333333);
    x = (x & 0x0f0f0f0f) << 4 | (x >> 4 & 0x0f0f0f0f);
    return __builtin_bswap32(x);
}

__extension__ typedef __int128 leat_int128;
__extension__ typedef unsigned __int128 leat_uint128;

LEAT_OF_ONE_(int, __popc, unsigned, __builtin_popcount(x))
LEAT_OF_ONE_(int, __popcll, unsigned long long, __builtin_popcountll(x))
LEAT_OF_ONE_(int, __clz, int, x ? __builtin_clz(static_cast<unsigned>(x)) : 32)
LEAT_OF_ONE_(int, __clzll, long long, x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64)
LEAT_OF_ONE_(int, __ffs, int, __builtin_ffs(x))
LEAT_OF_ONE_(int, __ffsll, long long, __builtin_ffsll(x))
LEAT_OF_ONE_(unsigned, __brev, unsigned, leat_bits_reversed(x))
LEAT_OF_ONE_(unsigned long long, __brevll, unsigned long long,
             static_cast<unsigned long long>(leat_bits_reversed(static_cast<unsigned>(x))) << 32 |
                 leat_bits_reversed(static_cast<unsigned>(x >> 32)))
LEAT_OF_TWO_(unsigned, __umul24, unsigned, (x & 0xffffff) * (y & 0xffffff))
LEAT_OF_TWO_(int, __mul24, int,
             static_cast<int>(static_cast<unsigned>(static_cast<int>(static_cast<unsigned>(x) << 8) >> 8) *
                              static_cast<unsigned>(static_cast<int>(static_cast<unsigned>(y) << 8) >> 8)))
LEAT_OF_TWO_(int, __mulhi, int, static_cast<int>(static_cast<long long>(x) * y >> 32))
LEAT_OF_TWO_(unsigned, __umulhi, unsigned, static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32))
LEAT_OF_TWO_(long long, __mul64hi, long long, static_cast<long long>(static_cast<leat_int128>(x) * y >> 64))
LEAT_OF_TWO_(unsigned long long, __umul64hi, unsigned long long,
             static_cast<unsigned long long>(static_cast<leat_uint128>(x) * y >> 64))
LEAT_OF_TWO_(int, __hadd, int, static_cast<int>((static_cast<long long>(x) + y) >> 1))
LEAT_OF_TWO_(int, __rhadd, int, static_cast<int>((static_cast<long long>(x) + y + 1) >> 1))
LEAT_OF_TWO_(unsigned, __uhadd, unsigned, static_cast<unsigned>((static_cast<unsigned long long>(x) + y) >> 1))
LEAT_OF_TWO_(unsigned, __urhadd, unsigned,
             static_cast<unsigned>((static_cast<unsigned long long>(x) + y + 1) >> 1))

/* Returns |x - y| + sum. */
static inline unsigned __sad(int x, int y, unsigned sum)
{
    return (x < y ? static_cast<unsigned>(y) - static_cast<unsigned>(x)
                  : static_cast<unsigned>(x) - static_cast<unsigned>(y)) +
           sum;
}

static inline unsigned __usad(unsigned x, unsigned y, unsigned sum)
{
    return (x < y ? y - x : x - y) + sum;
}

/* Returns four of the eight bytes of y and x. Each of the low four hexadecimal digits of selector selects one
 * byte. */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    unsigned long long from = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;

    for (unsigned i = 0; i < 4; i++) {
        unsigned digit = selector >> (4 * i) & 0xf;
        unsigned byte = static_cast<unsigned>(from >> (8 * (digit & 7))) & 0xff;

        /* If the highest bit of the digit is set, the byte is replaced by copies of its sign bit. */
        result |= (digit & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << (8 * i);
    }
    return result;
}

/* Shift high and low as one 64-bit number. The left shift returns the upper half of the result, the right shift
 * the lower half. */
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}

/* Returns sum plus the dot product of the four bytes of x and the four bytes of y. */
static inline int __dp4a(int x, int y, int sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += static_cast<signed char>(x >> i) * static_cast<signed char>(y >> i);
    return sum;
}

static inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (x >> i & 0xff) * (y >> i & 0xff);
    return sum;
}

/* Loads and stores with cache hints, which have no effect. */
#define LEAT_LOAD_STORE_(name)                                                                                    \
    template <class T> inline T __ld##name(const T *from)                                                         \
    {                                                                                                             \
        return *from;                                                                                             \
    }
LEAT_LOAD_STORE_(g)
LEAT_LOAD_STORE_(cg)
LEAT_LOAD_STORE_(ca)
LEAT_LOAD_STORE_(cs)
LEAT_LOAD_STORE_(lu)
LEAT_LOAD_STORE_(cv)
#undef LEAT_LOAD_STORE_
#define LEAT_LOAD_STORE_(name)                                                                                    \
    template <class T> inline void __st##name(T *to, typename leat_exactly<T>::type value)                        \
    {                                                                                                             \
        *to = value;                                                                                              \
    }
LEAT_LOAD_STORE_(wb)
LEAT_LOAD_STORE_(cg)
LEAT_LOAD_STORE_(cs)
LEAT_LOAD_STORE_(wt)
#undef LEAT_LOAD_STORE_

/* ---- conversions ---- */

LEAT_OF_ONE_(int, __float_as_int, float, leat_bits_as<int>(x))
LEAT_OF_ONE_(unsigned, __float_as_uint, float, leat_bits_as<unsigned>(x))
LEAT_OF_ONE_(float, __int_as_float, int, leat_bits_as<float>(x))
LEAT_OF_ONE_(float, __uint_as_float, unsigned, leat_bits_as<float>(x))
LEAT_OF_ONE_(long long, __double_as_longlong, double, leat_bits_as<long long>(x))
LEAT_OF_ONE_(double, __longlong_as_double, long long, leat_bits_as<double>(x))
LEAT_OF_ONE_(int, __double2hiint, double, static_cast<int>(leat_bits_as<long long>(x) >> 32))
LEAT_OF_ONE_(int, __double2loint, double, static_cast<int>(leat_bits_as<long long>(x)))
LEAT_OF_TWO_(double, __hiloint2double, int,
             leat_bits_as<double>(static_cast<unsigned long long>(static_cast<unsigned>(x)) << 32 |
                                  static_cast<unsigned>(y)))
LEAT_OF_ONE_(float, __double2float_rn, double, static_cast<float>(x))

/* Converts to an integer with saturation. NaN becomes 0. */
template <class To, class From> inline To leat_saturated(From x)
{
    typedef std::numeric_limits<To> limits;

    if (x != x)
        return 0;
    if (x >= ldexp(From(1), limits::digits))
        return limits::max();
    return x < static_cast<From>(limits::min()) ? limits::min() : static_cast<To>(x);
}

/* Defines conversions with rounding to nearest (rn), to zero (rz), up (ru) and down (rd). */
#define LEAT_TO_INTEGER_(name, to, from)                                                                          \
    LEAT_OF_ONE_(to, __##name##_rn, from, leat_saturated<to>(rint(x)))                                            \
    LEAT_OF_ONE_(to, __##name##_rz, from, leat_saturated<to>(trunc(x)))                                           \
    LEAT_OF_ONE_(to, __##name##_ru, from, leat_saturated<to>(ceil(x)))                                            \
    LEAT_OF_ONE_(to, __##name##_rd, from, leat_saturated<to>(floor(x)))

LEAT_TO_INTEGER_(float2int, int, float)
LEAT_TO_INTEGER_(float2uint, unsigned, float)
LEAT_TO_INTEGER_(float2ll, long long, float)
LEAT_TO_INTEGER_(float2ull, unsigned long long, float)
LEAT_TO_INTEGER_(double2int, int, double)
LEAT_TO_INTEGER_(double2uint, unsigned, double)
LEAT_TO_INTEGER_(double2ll, long long, double)
LEAT_TO_INTEGER_(double2ull, unsigned long long, double)
LEAT_OF_ONE_(float, __int2float_rn, int, static_cast<float>(x))
LEAT_OF_ONE_(float, __uint2float_rn, unsigned, static_cast<float>(x))
LEAT_OF_ONE_(float, __ll2float_rn, long long, static_cast<float>(x))
LEAT_OF_ONE_(float, __ull2float_rn, unsigned long long, static_cast<float>(x))
LEAT_OF_ONE_(double, __int2double_rn, int, x)
LEAT_OF_ONE_(double, __uint2double_rn, unsigned, x)
LEAT_OF_ONE_(double, __ll2double_rn, long long, static_cast<double>(x))
LEAT_OF_ONE_(double, __ull2double_rn, unsigned long long, static_cast<double>(x))

/* ---- floating point ---- */

LEAT_OF_TWO_(float, __fadd_rn, float, x + y)
LEAT_OF_TWO_(float, __fsub_rn, float, x - y)
LEAT_OF_TWO_(float, __fmul_rn, float, x *y)
LEAT_OF_TWO_(float, __fdiv_rn, float, x / y)
LEAT_OF_TWO_(float, __fdividef, float, x / y)
LEAT_OF_ONE_(float, __frcp_rn, float, 1 / x)
LEAT_OF_ONE_(float, __fsqrt_rn, float, sqrtf(x))
LEAT_OF_ONE_(float, __frsqrt_rn, float, 1 / sqrtf(x))
LEAT_OF_ONE_(float, __saturatef, float, x > 0 ? x < 1 ? x : 1 : 0)
LEAT_OF_TWO_(double, __dadd_rn, double, x + y)
LEAT_OF_TWO_(double, __dsub_rn, double, x - y)
LEAT_OF_TWO_(double, __dmul_rn, double, x *y)
LEAT_OF_TWO_(double, __ddiv_rn, double, x / y)
LEAT_OF_ONE_(double, __drcp_rn, double, 1 / x)
LEAT_OF_ONE_(double, __dsqrt_rn, double, sqrt(x))

#undef LEAT_OF_ONE_
#undef LEAT_OF_TWO_

static inline float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}

static inline double __fma_rn(double x, double y, double z)
{
    return fma(x, y, z);
}

/* extern "C", because glibc declares functions of these names, but does not define them. */
#define LEAT_FAST_(name)                                                                                          \
    extern "C" inline float __##name(float x) noexcept                                                            \
    {                                                                                                             \
        return name(x);                                                                                           \
    }

LEAT_FAST_(expf)
LEAT_FAST_(exp10f)
LEAT_FAST_(logf)
LEAT_FAST_(log2f)
LEAT_FAST_(log10f)
LEAT_FAST_(sinf)
LEAT_FAST_(cosf)
LEAT_FAST_(tanf)

#undef LEAT_FAST_

extern "C" inline float __powf(float x, float y) noexcept
{
    return powf(x, y);
}

extern "C" inline void __sincosf(float x, float *sine, float *cosine) noexcept
{
    sincosf(x, sine, cosine);
}

/* Templates, because newer versions of glibc define some of these functions, which are then preferred. */
LEAT_FUNCTION_ float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

LEAT_FUNCTION_ double rsqrt(double x)
{
    return 1 / sqrt(x);
}

LEAT_FUNCTION_ float rcbrtf(float x)
{
    return 1 / cbrtf(x);
}

LEAT_FUNCTION_ double rcbrt(double x)
{
    return 1 / cbrt(x);
}

/* Sine and cosine of pi * x. x is first reduced exactly, so the result is accurate for large x too. */
LEAT_FUNCTION_ double sinpi(double x)
{
    return sin(M_PI * remainder(x, 2));
}

LEAT_FUNCTION_ double cospi(double x)
{
    return cos(M_PI * remainder(x, 2));
}

LEAT_FUNCTION_ float sinpif(float x)
{
    return static_cast<float>(sin(M_PI * remainder(static_cast<double>(x), 2)));
}

LEAT_FUNCTION_ float cospif(float x)
{
    return static_cast<float>(cos(M_PI * remainder(static_cast<double>(x), 2)));
}

#undef LEAT_FUNCTION_

#endif

#endif
