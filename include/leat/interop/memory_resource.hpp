/*
 * leat/interop/memory_resource.hpp - gives leat's memory to C++ code: containers, RMM, CCCL and Thrust.
 *
 * Model. All classes here are inline, hold plain handles of leat that the caller keeps alive, and allocate from leat's
 * pools. A failure throws leat::allocation_error, which is a std::bad_alloc with leat's message.
 *
 *     class                       for                                     allocates
 *     leat::resource              cuda::mr::resource of CCCL 3 and RMM    in stream order, and for the host
 *     leat::pmr_resource          std::pmr containers (C++17)             memory that the host reaches
 *     leat::allocator<T>          std::vector, thrust::device_vector      of one kind, ready for every stream
 *
 *     leat::resource memory(device);                            // the default pool of device memory
 *     void *d = memory.allocate(cuda_stream, bytes, 256);       // any type that converts to the vendor's stream
 *     memory.deallocate(cuda_stream, d, bytes, 256);            // in the order of that stream, without waiting
 *
 *     leat::pmr_resource pinned(device, LEAT_KIND_PINNED);
 *     std::pmr::vector<float> batch(1 << 20, &pinned);          // leat_copy() from it is asynchronous
 *
 * Order. leat::resource frees in the order of the stream that deallocate() names: work of other streams must be
 * ordered before that point, or reported by leat_block_use(). The other classes free at once, so all work that uses
 * the memory must be complete (leat_memory_free()).
 *
 * Call order. The device, and the pool if one is given, must outlive the resource, its copies, and their memory.
 *
 * Threads. Any thread may use a resource and its copies.
 *
 * This header needs C++11, leat::pmr_resource C++17. It needs no vendor's SDK.
 */
#ifndef LEAT_INTEROP_MEMORY_RESOURCE_HPP
#define LEAT_INTEROP_MEMORY_RESOURCE_HPP

#include <leat/memory.h>
#include <leat/native.h>
#include <leat/pool.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>

#if __cplusplus >= 201703L && defined(__has_include)
#if __has_include(<memory_resource>)
#include <memory_resource>
#define LEAT_HAS_PMR 1
#endif
#endif

namespace leat {

/* The failure of an allocation, with leat's message. The text is part of the object, so that copying it cannot
 * fail; it is truncated to the size of that part. */
class allocation_error : public std::bad_alloc {
public:
    explicit allocation_error(leat_status status) noexcept : status_(status)
    {
        const char *message = leat_last_error();

        std::strncpy(text_, *message ? message : leat_status_text(status), sizeof text_ - 1);
    }

    const char *what() const noexcept override { return text_; }

    /* Returns the status of the call. */
    leat_status status() const noexcept { return status_; }

private:
    leat_status status_;
    char text_[1000] = {};
};

namespace detail {

inline void check(leat_status status)
{
    if (status != LEAT_OK)
        throw allocation_error(status);
}

/* Returns the vendor's handle of a stream: of a pointer, of an object with get() such as cuda::stream_ref, or of an
 * object with value() such as rmm::cuda_stream_view. An object with both is asked by get(), as int needs no conversion. */
template <typename S> auto native_of(const S &stream, int) -> decltype(static_cast<void *>(stream.get()))
{
    return static_cast<void *>(stream.get());
}
template <typename S> auto native_of(const S &stream, long) -> decltype(static_cast<void *>(stream.value()))
{
    return static_cast<void *>(stream.value());
}
template <typename T> void *native_of(T *stream, int) { return static_cast<void *>(stream); }

/* leat's handles for the vendor's streams of one device. A handle is made at the first use of a stream and kept until
 * the last resource that shares the table is gone. */
class stream_table {
public:
    explicit stream_table(leat_device *device) : device_(device) {}
    stream_table(const stream_table &) = delete;
    stream_table &operator=(const stream_table &) = delete;

    ~stream_table()
    {
        for (auto &entry : streams_)
            leat_stream_destroy(entry.second);
    }

    leat_stream *find(void *native)
    {
        std::lock_guard<std::mutex> held(lock_);
        leat_stream *&stream = streams_[native];

        if (!stream) {
            leat_status status = leat_stream_wrap(device_, native, &stream);

            if (status != LEAT_OK) {
                streams_.erase(native);
                throw allocation_error(status);
            }
        }
        return stream;
    }

private:
    leat_device *device_;
    std::mutex lock_; /* guards streams_ */
    std::map<void *, leat_stream *> streams_;
};

inline leat_pool *default_pool(leat_device *device, leat_kind kind)
{
    leat_pool *pool = nullptr;

    check(leat_pool_default(device, kind, &pool));
    return pool;
}

} // namespace detail

/*
 * Memory of one pool, by the interface that CCCL calls cuda::mr::resource: allocate() and deallocate() with a stream,
 * allocate_sync() and deallocate_sync() without one, and comparison. RMM and Thrust take resources of this form. Copies
 * share one table of streams and compare equal, as do all resources of the same pool.
 *
 * Properties (cuda::mr::device_accessible and host_accessible) are types of CCCL, which this header does not include.
 * A program states what is true for its pool, in namespace leat:
 *
 *     inline void get_property(const leat::resource &, cuda::mr::device_accessible) noexcept {}
 */
class resource {
public:
    /* Memory of kind from the device's default pool. */
    explicit resource(leat_device *device, leat_kind kind = LEAT_KIND_DEVICE)
        : resource(device, detail::default_pool(device, kind))
    {
    }

    /* Memory of pool, which is a pool of device. */
    resource(leat_device *device, leat_pool *pool)
        : pool_(pool), streams_(std::make_shared<detail::stream_table>(device))
    {
    }

    /* Allocates in the order of stream: a CUstream or cudaStream_t, or an object of CCCL or RMM that has one. */
    template <typename Stream>
    void *allocate(Stream stream, std::size_t bytes, std::size_t alignment = alignof(std::max_align_t))
    {
        void *ptr = nullptr;

        detail::check(leat_pool_alloc_aligned(streams_->find(detail::native_of(stream, 0)), pool_, bytes, alignment,
                                              &ptr));
        return ptr;
    }

    /* Frees ptr when stream reaches this point. */
    template <typename Stream>
    void deallocate(Stream stream, void *ptr, std::size_t = 0, std::size_t = alignof(std::max_align_t)) noexcept
    {
        /* The stream of an allocation has a handle already. For another one there may be no memory; then leat frees
         * the block once the device is idle. */
        try {
            leat_free(streams_->find(detail::native_of(stream, 0)), ptr);
        } catch (const std::bad_alloc &) {
            free_when_idle(ptr);
        }
    }

    /* Allocates memory that is ready for every stream and, if the host reaches it, for the host. */
    void *allocate_sync(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t))
    {
        void *ptr = nullptr;

        detail::check(leat_pool_alloc_aligned(nullptr, pool_, bytes, alignment, &ptr));
        return ptr;
    }

    /* Frees ptr at once: all work that uses it must be complete. */
    void deallocate_sync(void *ptr, std::size_t = 0, std::size_t = alignof(std::max_align_t)) noexcept
    {
        leat_memory_free(ptr);
    }

    /* Returns the pool. */
    leat_pool *pool() const noexcept { return pool_; }

    friend bool operator==(const resource &a, const resource &b) noexcept { return a.pool_ == b.pool_; }
    friend bool operator!=(const resource &a, const resource &b) noexcept { return a.pool_ != b.pool_; }

private:
    static void free_when_idle(void *ptr) noexcept
    {
        leat_pointer_info info = LEAT_POINTER_INFO_INIT;

        if (leat_pointer_get_info(ptr, &info) == LEAT_OK && leat_device_synchronize(info.device) == LEAT_OK)
            leat_memory_free(ptr);
    }

    leat_pool *pool_;
    std::shared_ptr<detail::stream_table> streams_;
};

#ifdef LEAT_HAS_PMR

/* Memory of one kind for std::pmr containers. The container's elements live in it, so the host must reach it: PINNED or
 * MANAGED memory, or DEVICE memory of the CPU device. */
class pmr_resource : public std::pmr::memory_resource {
public:
    explicit pmr_resource(leat_device *device, leat_kind kind = LEAT_KIND_PINNED)
        : pool_(detail::default_pool(device, kind))
    {
    }

    explicit pmr_resource(leat_pool *pool) noexcept : pool_(pool) {}

    /* Returns the pool. */
    leat_pool *pool() const noexcept { return pool_; }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *ptr = nullptr;

        /* A std::pmr resource returns a unique address also for 0 bytes. */
        detail::check(leat_pool_alloc_aligned(nullptr, pool_, bytes ? bytes : 1, alignment, &ptr));
        return ptr;
    }

    void do_deallocate(void *ptr, std::size_t, std::size_t) noexcept override { leat_memory_free(ptr); }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        const pmr_resource *same = dynamic_cast<const pmr_resource *>(&other);

        return same && same->pool_ == pool_;
    }

    leat_pool *pool_;
};

#endif

/*
 * An allocator for containers. Pointer is what the container calls a pointer: T * for std::vector, and
 * thrust::device_ptr<T> for thrust::device_vector:
 *
 *     using floats = leat::allocator<float, thrust::device_ptr<float>>;
 *     thrust::device_vector<float, floats> v(n, floats(device));
 *
 * Memory is ready for every stream when allocate() returns, and deallocate() frees it at once.
 */
template <typename T, typename Pointer = T *> class allocator {
public:
    using value_type = T;
    using pointer = Pointer;
    using const_pointer = typename std::pointer_traits<Pointer>::template rebind<const T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    template <typename U> struct rebind {
        using other = allocator<U, typename std::pointer_traits<Pointer>::template rebind<U>>;
    };

    /* Memory of kind from the device's default pool. */
    explicit allocator(leat_device *device, leat_kind kind = LEAT_KIND_DEVICE)
        : pool_(detail::default_pool(device, kind))
    {
    }

    explicit allocator(leat_pool *pool) noexcept : pool_(pool) {}

    template <typename U, typename P> allocator(const allocator<U, P> &other) noexcept : pool_(other.pool()) {}

    pointer allocate(size_type count)
    {
        void *ptr = nullptr;

        if (count > std::numeric_limits<size_type>::max() / sizeof(T))
            throw std::bad_alloc();
        detail::check(leat_pool_alloc_aligned(nullptr, pool_, count * sizeof(T), alignof(T), &ptr));
        return pointer(static_cast<T *>(ptr));
    }

    void deallocate(pointer ptr, size_type) noexcept { leat_memory_free(raw(ptr)); }

    /* Returns the pool. */
    leat_pool *pool() const noexcept { return pool_; }

    template <typename U, typename P> bool operator==(const allocator<U, P> &other) const noexcept
    {
        return pool_ == other.pool();
    }
    template <typename U, typename P> bool operator!=(const allocator<U, P> &other) const noexcept
    {
        return pool_ != other.pool();
    }

private:
    /* Plain pointers, and objects with get() such as thrust::device_ptr. */
    static void *raw(T *ptr) noexcept { return ptr; }
    template <typename P> static auto raw(const P &ptr) noexcept -> decltype(static_cast<void *>(ptr.get()))
    {
        return static_cast<void *>(ptr.get());
    }

    leat_pool *pool_;
};

} // namespace leat

#endif
