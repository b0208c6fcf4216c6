/*
 * test_memory_resource.cc - leat/interop/memory_resource.hpp: the interfaces of CCCL and RMM, restated here as traits,
 * containers of the standard library, and the order of frees.
 */
#include <leat/interop/memory_resource.hpp>
#include <leat/leat.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, leat_last_error());           \
            std::exit(1);                                                                                         \
        }                                                                                                         \
    } while (0)

namespace {

/* Stands for cudaStream_t. */
struct vendor_stream;

/* Stands for cuda::stream_ref and rmm::cuda_stream_view. */
struct stream_ref {
    vendor_stream *native;
    vendor_stream *get() const { return native; }
};
struct cuda_stream_view {
    vendor_stream *native;
    vendor_stream *value() const { return native; }
    operator vendor_stream *() const { return native; }
};
struct both {
    vendor_stream *native;
    vendor_stream *get() const { return native; }
    vendor_stream *value() const { return nullptr; }
};

/* The requirements of cuda::mr::synchronous_resource and cuda::mr::resource (CCCL 3). */
template <typename R, typename = void> struct is_synchronous_resource : std::false_type {};
template <typename R>
struct is_synchronous_resource<
    R, std::void_t<decltype(std::declval<R &>().allocate_sync(std::size_t(), std::size_t())),
                   decltype(std::declval<R &>().deallocate_sync(nullptr, std::size_t(), std::size_t())),
                   decltype(std::declval<const R &>() == std::declval<const R &>()),
                   decltype(std::declval<const R &>() != std::declval<const R &>())>>
    : std::bool_constant<
          std::is_same_v<decltype(std::declval<R &>().allocate_sync(std::size_t(), std::size_t())), void *> &&
          std::is_same_v<decltype(std::declval<R &>().deallocate_sync(nullptr, std::size_t(), std::size_t())), void> &&
          std::is_copy_constructible_v<R> && std::is_nothrow_move_constructible_v<R>> {};

template <typename R, typename S, typename = void> struct is_resource : std::false_type {};
template <typename R, typename S>
struct is_resource<
    R, S,
    std::void_t<decltype(std::declval<R &>().allocate(std::declval<S>(), std::size_t(), std::size_t())),
                decltype(std::declval<R &>().deallocate(std::declval<S>(), nullptr, std::size_t(), std::size_t()))>>
    : std::bool_constant<
          is_synchronous_resource<R>::value &&
          std::is_same_v<decltype(std::declval<R &>().allocate(std::declval<S>(), std::size_t(), std::size_t())),
                         void *> &&
          std::is_same_v<
              decltype(std::declval<R &>().deallocate(std::declval<S>(), nullptr, std::size_t(), std::size_t())),
              void>> {};

static_assert(is_synchronous_resource<leat::resource>::value, "cuda::mr::synchronous_resource");
static_assert(is_resource<leat::resource, stream_ref>::value, "cuda::mr::resource");
static_assert(is_resource<leat::resource, cuda_stream_view>::value, "RMM's streams");
static_assert(is_resource<leat::resource, vendor_stream *>::value, "plain handles");
static_assert(!is_resource<std::string, stream_ref>::value, "the trait refuses other types");
static_assert(std::is_base_of_v<std::bad_alloc, leat::allocation_error>, "allocation_error");

/* Stands for thrust::device_ptr: the host cannot dereference it. */
template <typename T> class device_ptr {
public:
    using element_type = T;
    using difference_type = std::ptrdiff_t;
    explicit device_ptr(T *ptr = nullptr) : ptr_(ptr) {}
    T *get() const { return ptr_; }
    template <typename U> using rebind = device_ptr<U>;

private:
    T *ptr_;
};

/* Holds up a stream until it is opened. */
class gate {
public:
    explicit gate(leat_stream *stream) : stream_(stream)
    {
        CHECK(leat_launch_host(stream, wait, this) == LEAT_OK);
    }
    ~gate()
    {
        open_ = true;
        CHECK(leat_stream_synchronize(stream_) == LEAT_OK);
    }

private:
    static void wait(void *self)
    {
        while (!static_cast<gate *>(self)->open_)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    leat_stream *stream_;
    std::atomic<bool> open_{false};
};

vendor_stream *native(leat_stream *stream)
{
    void *handle = nullptr;

    CHECK(leat_stream_native(stream, &handle) == LEAT_OK);
    return static_cast<vendor_stream *>(handle);
}

enum : std::size_t { BYTES = 1 << 20 };

void test_order(leat_device *device)
{
    leat::resource memory(device);
    leat::resource copy = memory;
    leat_stream *a, *b;
    void *first, *second, *host;

    CHECK(leat_stream_create(device, &a) == LEAT_OK && leat_stream_create(device, &b) == LEAT_OK);
    CHECK(leat_memory_alloc(device, LEAT_KIND_PINNED, BYTES, &host) == LEAT_OK);
    first = memory.allocate(stream_ref{native(a)}, BYTES, 256);
    copy.deallocate(stream_ref{native(a)}, first, BYTES, 256);
    CHECK(copy.allocate(cuda_stream_view{native(a)}, BYTES, 256) == first);
    CHECK(leat_fill(a, first, 1, BYTES) == LEAT_OK && leat_stream_synchronize(a) == LEAT_OK);
    {
        gate held(a);

        /* The block is read when the gate opens, so until then nobody else may get its memory. */
        CHECK(leat_copy(a, host, first, BYTES) == LEAT_OK);
        memory.deallocate(native(a), first, BYTES, 256);
        second = memory.allocate_sync(BYTES, 256);
        CHECK(second != first);
        CHECK(leat_fill(b, second, 2, BYTES) == LEAT_OK && leat_stream_synchronize(b) == LEAT_OK);
        memory.deallocate_sync(second, BYTES, 256);
        second = memory.allocate(both{native(b)}, BYTES, 256);
        CHECK(second != first);
        memory.deallocate(both{native(b)}, second, BYTES, 256);
    }
    for (std::size_t i = 0; i < BYTES; i++)
        CHECK(static_cast<unsigned char *>(host)[i] == 1);
    CHECK(leat_memory_free(host) == LEAT_OK);
    CHECK(memory == copy && !(memory != copy));
    CHECK(memory == leat::resource(device) && memory != leat::resource(device, LEAT_KIND_PINNED));
}

void test_failures(leat_device *device)
{
    leat_pool_options options = LEAT_POOL_OPTIONS_INIT;
    leat_pool *pool = nullptr;
    leat_stream *stream;
    bool thrown = false;

    options.limit_bytes = 8 << 20;
    CHECK(leat_pool_create(device, &options, &pool) == LEAT_OK && leat_stream_create(device, &stream) == LEAT_OK);
    {
        leat::resource memory(device, pool);

        CHECK(memory.pool() == pool);
        try {
            (void)memory.allocate(native(stream), 64 << 20, 256);
        } catch (const leat::allocation_error &error) {
            thrown = error.status() == LEAT_ERROR_DEVICE_MEMORY && std::string(error.what()).size() > 20;
        }
        CHECK(thrown);
        thrown = false;
        try {
            (void)memory.allocate_sync(BYTES, 3); /* no power of two */
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        CHECK(thrown);
        memory.deallocate_sync(nullptr);
        memory.deallocate(native(stream), nullptr);
    }
    CHECK(leat_pool_destroy(pool) == LEAT_OK);
}

void test_pmr(leat_device *device)
{
#ifdef LEAT_HAS_PMR
    leat::pmr_resource pinned(device), same(device), other(device, LEAT_KIND_DEVICE);
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_pool_stats before = LEAT_POOL_STATS_INIT, after = LEAT_POOL_STATS_INIT;
    void *aligned;

    CHECK(leat_pool_get_stats(pinned.pool(), &before) == LEAT_OK);
    {
        std::pmr::vector<int> numbers(1000, 7, &pinned);
        std::pmr::map<std::pmr::string, std::pmr::string> names(&pinned);
        std::pmr::list<double> list(&same);

        CHECK(leat_pointer_get_info(numbers.data(), &info) == LEAT_OK && info.kind == LEAT_KIND_PINNED);
        for (int i = 0; i < 1000; i++)
            numbers.push_back(i);
        CHECK(numbers[999] == 7 && numbers[1999] == 999);
        names["one"] = std::pmr::string(1000, 'x');
        list.push_back(1.5);
        CHECK(names["one"].size() == 1000 && list.front() == 1.5);
        aligned = pinned.allocate(100, 8192);
        CHECK(reinterpret_cast<std::uintptr_t>(aligned) % 8192 == 0);
        pinned.deallocate(aligned, 100, 8192);
        aligned = pinned.allocate(0, 1);
        CHECK(aligned);
        pinned.deallocate(aligned, 0, 1);
    }
    CHECK(leat_pool_get_stats(pinned.pool(), &after) == LEAT_OK);
    CHECK(after.live_blocks == before.live_blocks && after.frees > before.frees);
    CHECK(pinned.is_equal(same) && !pinned.is_equal(other) && !pinned.is_equal(*std::pmr::new_delete_resource()));
#else
    (void)device;
#endif
}

void test_allocator(leat_device *device)
{
    using pinned = leat::allocator<float>;
    using device_floats = leat::allocator<float, device_ptr<float>>;
    using ints = std::allocator_traits<device_floats>::rebind_alloc<int>;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    pinned from(device, LEAT_KIND_PINNED);
    device_floats there(device);
    ints other(there);
    bool thrown = false;

    static_assert(std::is_same_v<ints::pointer, device_ptr<int>>, "rebind keeps the kind of pointer");
    std::vector<float, pinned> numbers(1000, 2.5f, from);
    CHECK(leat_pointer_get_info(numbers.data(), &info) == LEAT_OK && info.kind == LEAT_KIND_PINNED);
    std::vector<float, pinned> moved = std::move(numbers), copied = moved;
    CHECK(moved[999] == 2.5f && copied == moved);
    device_ptr<float> block = there.allocate(1000);
    CHECK(leat_pointer_get_info(block.get(), &info) == LEAT_OK && info.kind == LEAT_KIND_DEVICE);
    CHECK(info.bytes == 1000 * sizeof(float));
    there.deallocate(block, 1000);
    CHECK(other == there && pinned(device, LEAT_KIND_PINNED) == from && there != from);
    try {
        (void)there.allocate(std::numeric_limits<std::size_t>::max() / 2);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
}

} // namespace

int main()
{
    leat_device *device;

    CHECK(leat_device_open(std::getenv("LEAT_TEST_DEVICE"), &device) == LEAT_OK);
    test_order(device);
    test_failures(device);
    test_pmr(device);
    test_allocator(device);
    CHECK(leat_device_close(device) == LEAT_OK);
    return 0;
}
