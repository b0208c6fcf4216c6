/*
 * leat/compat/cooperative_groups.h - defines CUDA's cooperative groups for kernels on the CPU device, for C++14
 * and later.
 *
 * The semantics are those of NVIDIA's "CUDA C++ Programming Guide", section "Cooperative Groups". There are these
 * groups: thread block, grid (in a cooperative launch), tiles of 1 to 32 threads, coalesced_threads(),
 * binary_partition() and labeled_partition(). All have sync(), ranks and sizes. Groups within a warp also have
 * shuffles, votes, matches, reduce() and scans. In memcpy_async() the first thread of the group copies at once,
 * and wait() is a barrier. Clusters and tiles larger than a warp are missing.
 *
 * kernel_support.h describes how threads wait.
 */
#ifndef LEAT_COMPAT_COOPERATIVE_GROUPS_H
#define LEAT_COMPAT_COOPERATIVE_GROUPS_H

#include <leat/compat/cuda_runtime.h>

#if defined(__cplusplus) && __cplusplus >= 201402L

namespace cooperative_groups
{

/* ---- groups ------------------------------------------------------------------------------------------------ */

/* Any group. mask has the lanes of a group within a warp. */
class thread_group
{
  protected:
    enum kind_t { grid_kind, block_kind, lanes_kind } kind;
    unsigned mask;

    thread_group(kind_t which, unsigned lanes) : kind(which), mask(lanes)
    {
    }

    unsigned lanes_before() const
    {
        return mask & ((1u << leat_lane_number()) - 1);
    }

    friend thread_group tiled_partition(const thread_group &parent, unsigned size);

  public:
    unsigned long long num_threads() const
    {
        unsigned long long block = static_cast<unsigned long long>(blockDim.x) * blockDim.y * blockDim.z;

        return kind == lanes_kind   ? static_cast<unsigned long long>(__popc(mask))
               : kind == block_kind ? block
                                    : block * gridDim.x * gridDim.y * gridDim.z;
    }

    unsigned long long size() const
    {
        return num_threads();
    }

    unsigned long long thread_rank() const
    {
        if (kind == lanes_kind)
            return static_cast<unsigned long long>(__popc(lanes_before()));
        if (kind == block_kind)
            return leat_thread_number();
        return (blockIdx.x + gridDim.x * (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z)) *
                   blockDim.x * blockDim.y * blockDim.z +
               leat_thread_number();
    }

    void sync() const
    {
        leat_keeps_place keeps;

        if (kind == lanes_kind)
            __syncwarp(mask);
        else if (kind == block_kind)
            leat_block_wait();
        else
            leat_grid_wait();
    }

    bool is_valid() const
    {
        return kind != grid_kind || (leat_block && leat_block->wait_for_grid);
    }
};

class thread_block : public thread_group
{
    thread_block() : thread_group(block_kind, 0)
    {
    }

    friend thread_block this_thread_block();

  public:
    struct arrival_token {
    };

    static void sync()
    {
        __syncthreads();
    }

    static unsigned thread_rank()
    {
        return leat_thread_number();
    }

    static unsigned num_threads()
    {
        return blockDim.x * blockDim.y * blockDim.z;
    }

    static unsigned size()
    {
        return num_threads();
    }

    static dim3 group_index()
    {
        return dim3(blockIdx);
    }

    static dim3 thread_index()
    {
        return dim3(threadIdx);
    }

    static dim3 group_dim()
    {
        return dim3(blockDim);
    }

    static dim3 dim_threads()
    {
        return dim3(blockDim);
    }

    /* Does nothing: barrier_wait() is the whole barrier. */
    static arrival_token barrier_arrive()
    {
        return arrival_token();
    }

    static void barrier_wait(arrival_token &&)
    {
        __syncthreads();
    }
};

inline thread_block this_thread_block()
{
    return thread_block();
}

class grid_group : public thread_group
{
    grid_group() : thread_group(grid_kind, 0)
    {
    }

    friend grid_group this_grid();

  public:
    struct arrival_token {
    };

    static dim3 group_dim()
    {
        return dim3(gridDim);
    }

    static dim3 dim_blocks()
    {
        return dim3(gridDim);
    }

    static unsigned long long num_blocks()
    {
        return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
    }

    static dim3 block_index()
    {
        return dim3(blockIdx);
    }

    static unsigned long long block_rank()
    {
        return blockIdx.x + gridDim.x * (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
    }

    arrival_token barrier_arrive() const
    {
        return arrival_token();
    }

    void barrier_wait(arrival_token &&) const
    {
        sync();
    }
};

inline grid_group this_grid()
{
    return grid_group();
}

/* Base class of groups within a warp. The rank of a lane is its position among the lanes of the group. */
class lanes_group : public thread_group
{
  protected:
    explicit lanes_group(unsigned lanes) : thread_group(lanes_kind, lanes)
    {
    }

    unsigned lane_of(unsigned rank) const
    {
        unsigned lanes = mask;

        for (; rank && lanes & (lanes - 1); rank--)
            lanes &= lanes - 1;
        return static_cast<unsigned>(__builtin_ctz(lanes));
    }

    /* Converts a bit mask of lanes to a bit mask of their ranks. */
    unsigned ranks_of(unsigned lanes) const
    {
        unsigned ranks = 0, rank = 0;

        for (unsigned left = mask; left; left &= left - 1, rank++)
            ranks |= (lanes >> __builtin_ctz(left) & 1) << rank;
        return ranks;
    }

  public:
    unsigned thread_rank() const
    {
        return static_cast<unsigned>(__popc(lanes_before()));
    }

    unsigned num_threads() const
    {
        return static_cast<unsigned>(__popc(mask));
    }

    unsigned size() const
    {
        return num_threads();
    }

    unsigned leat_lanes() const
    {
        return mask;
    }

    template <class T> T shfl(T value, unsigned rank) const
    {
        return leat_shuffle(mask, value, lane_of(rank % num_threads()));
    }

    template <class T> T shfl_up(T value, unsigned delta) const
    {
        unsigned rank = thread_rank();

        return leat_shuffle(mask, value, lane_of(rank >= delta ? rank - delta : rank));
    }

    template <class T> T shfl_down(T value, unsigned delta) const
    {
        unsigned rank = thread_rank();

        return leat_shuffle(mask, value, lane_of(rank + delta < num_threads() ? rank + delta : rank));
    }

    template <class T> T shfl_xor(T value, unsigned ranks) const
    {
        unsigned rank = thread_rank(), other = rank ^ ranks;

        return leat_shuffle(mask, value, lane_of(other < num_threads() ? other : rank));
    }

    int any(int predicate) const
    {
        return __any_sync(mask, predicate);
    }

    int all(int predicate) const
    {
        return __all_sync(mask, predicate);
    }

    unsigned ballot(int predicate) const
    {
        return ranks_of(__ballot_sync(mask, predicate));
    }

    template <class T> unsigned match_any(T value) const
    {
        return ranks_of(__match_any_sync(mask, value));
    }

    template <class T> unsigned match_all(T value, int &all) const
    {
        return ranks_of(__match_all_sync(mask, value, &all));
    }
};

/* The lanes that execute the same code, or the lanes of one part of a partition. */
class coalesced_group : public lanes_group
{
    unsigned meta_rank, meta_size;

    coalesced_group(unsigned lanes, unsigned rank, unsigned count)
        : lanes_group(lanes), meta_rank(rank), meta_size(count)
    {
    }

    friend coalesced_group leat_coalesced(unsigned lanes, unsigned rank, unsigned count);

  public:
    unsigned meta_group_rank() const
    {
        return meta_rank;
    }

    unsigned meta_group_size() const
    {
        return meta_size;
    }
};

inline coalesced_group leat_coalesced(unsigned lanes, unsigned rank, unsigned count)
{
    return coalesced_group(lanes, rank, count);
}

static inline __attribute__((always_inline)) coalesced_group coalesced_threads()
{
    return leat_coalesced(__activemask(), 0, 1);
}

/* Returns the lanes of the current thread's tile. The last warp of a block may be partial, and so may its
 * tiles. */
inline unsigned leat_lanes_of_tile(unsigned size)
{
    unsigned lanes = size < 32 ? (1u << size) - 1 : ~0u, threads = blockDim.x * blockDim.y * blockDim.z;
    unsigned first = leat_thread_number() & ~31u, left = threads - first;

    lanes <<= leat_lane_number() & ~(size - 1);
    return left < 32 ? lanes & ((1u << left) - 1) : lanes;
}

template <unsigned Size, class Parent = void> class thread_block_tile : public lanes_group
{
    static_assert(Size && Size <= 32 && !(Size & (Size - 1)), "leat: tiles have 1, 2, 4, 8, 16 or 32 threads");
    unsigned meta_rank, meta_size;

    thread_block_tile(unsigned rank, unsigned count)
        : lanes_group(leat_lanes_of_tile(Size)), meta_rank(rank), meta_size(count)
    {
    }

    template <unsigned S, class P> friend thread_block_tile<S, P> tiled_partition(const P &parent);
    template <unsigned S, class P> friend class thread_block_tile;
    friend thread_block_tile<1, void> this_thread();

  public:
    /* Converts from a tile of the same size with another type of parent. */
    template <class Other>
    thread_block_tile(const thread_block_tile<Size, Other> &other)
        : lanes_group(other), meta_rank(other.meta_rank), meta_size(other.meta_size)
    {
    }

    static constexpr unsigned num_threads()
    {
        return Size;
    }

    static constexpr unsigned size()
    {
        return Size;
    }

    static unsigned thread_rank()
    {
        return leat_lane_number() & (Size - 1);
    }

    unsigned meta_group_rank() const
    {
        return meta_rank;
    }

    unsigned meta_group_size() const
    {
        return meta_size;
    }
};

template <unsigned Size, class Parent> inline thread_block_tile<Size, Parent> tiled_partition(const Parent &parent)
{
    unsigned threads = static_cast<unsigned>(parent.size());

    return thread_block_tile<Size, Parent>(static_cast<unsigned>(parent.thread_rank()) / Size,
                                           (threads + Size - 1) / Size);
}

/* Divides a group into tiles whose size is known only at run time. A coalesced group is divided by the ranks of
 * its lanes. */
inline thread_group tiled_partition(const thread_group &parent, unsigned size)
{
    unsigned rank = static_cast<unsigned>(parent.thread_rank()), lanes = 0, number = 0;

    if (parent.kind != thread_group::lanes_kind)
        return thread_group(thread_group::lanes_kind, leat_lanes_of_tile(size));
    for (unsigned left = parent.mask; left; left &= left - 1, number++)
        if (number / size == rank / size)
            lanes |= left & -left;
    return thread_group(thread_group::lanes_kind, lanes);
}

inline thread_block_tile<1, void> this_thread()
{
    return thread_block_tile<1, void>(0, 1);
}

/* Divide a group within a warp, into the lanes with the same predicate or with the same label. Return the part
 * that has the calling lane. */
template <class Group> inline coalesced_group binary_partition(const Group &group, bool predicate)
{
    unsigned present, yes = leat_ballot(group.leat_lanes(), predicate, &present);

    return leat_coalesced(predicate ? yes : present & ~yes, predicate, 2);
}

template <class Group, class Label> inline coalesced_group labeled_partition(const Group &group, Label label)
{
    unsigned same = __match_any_sync(group.leat_lanes(), label);
    unsigned first = leat_lane_number() == static_cast<unsigned>(__builtin_ctz(same));
    unsigned leaders = __ballot_sync(group.leat_lanes(), static_cast<int>(first));

    return leat_coalesced(same, static_cast<unsigned>(__popc(leaders & ((1u << __builtin_ctz(same)) - 1))),
                          static_cast<unsigned>(__popc(leaders)));
}

template <class Group> inline void sync(const Group &group)
{
    group.sync();
}

template <class Group> inline auto thread_rank(const Group &group) -> decltype(group.thread_rank())
{
    return group.thread_rank();
}

template <class Group> inline auto group_size(const Group &group) -> decltype(group.size())
{
    return group.size();
}

template <class Group, class F> inline void invoke_one(const Group &group, F &&function)
{
    if (group.thread_rank() == 0)
        function();
}

/* ---- reductions and scans ---------------------------------------------------------------------------------- */

template <class T = void> struct plus {
    T operator()(T a, T b) const
    {
        return a + b;
    }
};

template <class T = void> struct less {
    T operator()(T a, T b) const
    {
        return b < a ? b : a;
    }
};

template <class T = void> struct greater {
    T operator()(T a, T b) const
    {
        return a < b ? b : a;
    }
};

template <class T = void> struct bit_and {
    T operator()(T a, T b) const
    {
        return a & b;
    }
};

template <class T = void> struct bit_or {
    T operator()(T a, T b) const
    {
        return a | b;
    }
};

template <class T = void> struct bit_xor {
    T operator()(T a, T b) const
    {
        return a ^ b;
    }
};

template <class Group, class T, class Operation>
inline T reduce(const Group &group, T value, Operation &&operation)
{
    typedef typename std::decay<Operation>::type kept;

    return leat_reduce(group.leat_lanes(), value, kept(operation));
}

/* Combines the values of a scan: each lane gets the result of the values up to and including its own. */
template <class T, class Operation> inline void leat_combine_scan(leat_lane *const *lanes, uint32_t present)
{
    typedef leat_reduced<T, Operation> brought;
    const brought *first = static_cast<const brought *>(lanes[__builtin_ctz(present)]->in);
    T result = first->value;

    for (uint32_t left = present; left; left &= left - 1) {
        const leat_lane *lane = lanes[__builtin_ctz(left)];
        const brought *in = static_cast<const brought *>(lane->in);

        if (in != first)
            result = first->operation(result, in->value);
        *static_cast<T *>(lane->out) = result;
    }
}

template <class Group, class T, class Operation>
inline T inclusive_scan(const Group &group, T value, Operation &&operation)
{
    typedef typename std::decay<Operation>::type kept;
    leat_reduced<T, kept> brought = {value, operation};

    leat_meet(group.leat_lanes(), &brought, &value, 0, leat_combine_scan<T, kept>);
    return value;
}

template <class Group, class T> inline T inclusive_scan(const Group &group, T value)
{
    return inclusive_scan(group, value, plus<T>());
}

/* Returns the result of the values before the calling lane. The first lane gets T(). */
template <class Group, class T, class Operation>
inline T exclusive_scan(const Group &group, T value, Operation &&operation)
{
    T before = group.shfl_up(inclusive_scan(group, value, operation), 1);

    return group.thread_rank() ? before : T();
}

template <class Group, class T> inline T exclusive_scan(const Group &group, T value)
{
    return exclusive_scan(group, value, plus<T>());
}

/* ---- copies ------------------------------------------------------------------------------------------------ */

template <class Group> inline void memcpy_async(const Group &group, void *dst, const void *src, size_t bytes)
{
    if (group.thread_rank() == 0)
        memcpy(dst, src, bytes);
}

/* Copies the smaller of the two numbers of elements. */
template <class Group, class T>
inline void memcpy_async(const Group &group, T *dst, size_t dst_count, const T *src, size_t src_count)
{
    memcpy_async(group, static_cast<void *>(dst), static_cast<const void *>(src),
                 sizeof(T) * (dst_count < src_count ? dst_count : src_count));
}

template <class Group> inline void wait(const Group &group)
{
    group.sync();
}

template <unsigned Stages, class Group> inline void wait_prior(const Group &group)
{
    group.sync();
}

} // namespace cooperative_groups

#endif

#endif
