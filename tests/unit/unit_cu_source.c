/* unit_cu_source.c - tests the translator of "leat cu", construct by construct. The samples
 * tests/compat/sample_*.cu show that compilers and the CPU device accept its output. */
#include "cu_source.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Reduces white space to one space, and removes it next to punctuation, so that texts can be compared. */
static char *squeezed(const char *text)
{
    char *out = malloc(strlen(text) + 1), *end = out;

    assert_non_null(out);
    for (; *text; text++) {
        if (!isspace((unsigned char)*text)) {
            *end++ = *text;
        } else if (end > out && (isalnum((unsigned char)end[-1]) || end[-1] == '_')) {
            while (isspace((unsigned char)text[1]))
                text++;
            if (isalnum((unsigned char)text[1]) || text[1] == '_')
                *end++ = ' ';
        }
    }
    *end = '\0';
    return out;
}

static char *translated(const char *source)
{
    struct cu_error error;
    char *out = cu_source_translate(source, strlen(source), &error);

    if (!out)
        fail_msg("%s\n  %u: %s", source, error.line, error.text);
    return out;
}

/* Fails unless source is translated to expected, apart from white space. */
static void becomes(const char *source, const char *expected)
{
    char *out = translated(source), *got = squeezed(out), *wanted = squeezed(expected);

    if (strcmp(got, wanted))
        fail_msg("%s\n  became %s\n  and not %s", source, out, expected);
    free(wanted);
    free(got);
    free(out);
}

static void stays(const char *source)
{
    char *out = translated(source);

    assert_string_equal(out, source);
    free(out);
}

static void refused(const char *source, unsigned line, const char *word)
{
    struct cu_error error;

    assert_null(cu_source_translate(source, strlen(source), &error));
    if (error.line != line || !strstr(error.text, word))
        fail_msg("%s\n  line %u (not %u): %s", source, error.line, line, error.text);
}

#define CALL(configuration, call) "(::leat_cuda_configure(" configuration ")," call ")"

static void launches(void **state)
{
    (void)state;
    becomes("f<<<1, 2>>>(a);", CALL("1, 2", "f(a)") ";");
    becomes("f<<<g, b, n * sizeof(int), s>>>();", CALL("g, b, n * sizeof(int), s", "f()") ";");
    becomes("n::m::f<<<1, 1>>>(x);", CALL("1, 1", "n::m::f(x)") ";");
    becomes("::f<<<1, 1>>>(x);", CALL("1, 1", "::f(x)") ";");
    becomes("f<T><<<1, 1>>>(x);", CALL("1, 1", "f<T>(x)") ";");
    becomes("f<A<B<int>>, 3><<<1, 1>>>(x);", CALL("1, 1", "f<A<B<int>>, 3>(x)") ";");
    becomes("f<(a > b)><<<1, 1>>>(x);", CALL("1, 1", "f<(a > b)>(x)") ";");
    becomes("A<int>::f<<<1, 1>>>(x);", CALL("1, 1", "A<int>::f(x)") ";");
    becomes("return f<<<1, 1>>>(x);", "return" CALL("1, 1", "f(x)") ";");
    becomes("if (c) f<<<1, 1>>>(x); else g<<<2, 2>>>(y);",
            "if (c)" CALL("1, 1", "f(x)") "; else" CALL("2, 2", "g(y)") ";");
    becomes("(*f)<<<1, 1>>>(x);", CALL("1, 1", "(*f)(x)") ";");
    becomes("if (c) (*f)<<<1, 1>>>(x);", "if (c)" CALL("1, 1", "(*f)(x)") ";");
    becomes("k[i + 1]<<<1, 1>>>(x);", CALL("1, 1", "k[i + 1](x)") ";");
    becomes("a.b->k<<<1, 1>>>(x);", CALL("1, 1", "a.b->k(x)") ";");
    becomes("get(3)(4)<<<1, 1>>>(x);", CALL("1, 1", "get(3)(4)(x)") ";");
    becomes("x = c ? 1 : (f<<<1, 1>>>(x), 2);", "x = c ? 1 : (" CALL("1, 1", "f(x)") ", 2);");
    /* A launch may be inside the arguments of another launch. */
    becomes("f<<<1, 1>>>(h([&] { g<<<2, 2>>>(y); }));",
            CALL("1, 1", "f(h([&] {" CALL("2, 2", "g(y)") "; }))") ";");
}

static void configurations(void **state)
{
    (void)state;
    becomes("f<<<1 << 3, 64 >> 1>>>(x);", CALL("1 << 3, 64 >> 1", "f(x)") ";");
    becomes("f<<<W<4>::v, n>>>(x);", CALL("W<4>::v, n", "f(x)") ";");
    becomes("f<<<1, W<A<B<int>>>(3)>>>(x);", CALL("1, W<A<B<int>>>(3)", "f(x)") ";");
    becomes("f<<<1, W<4>>>>(x);", CALL("1, W<4>", "f(x)") ";");
    becomes("f<<<a < b ? a : b, 1>>>(x);", CALL("a < b ? a : b, 1", "f(x)") ";");
    becomes("f<<<1, i < n>>>(x);", CALL("1, i < n", "f(x)") ";");
    becomes("f<<<dim3(1, g(2)), {3, 4}>>>(x);", CALL("dim3(1, g(2)), {3, 4}", "f(x)") ";");
    becomes("f<<<1, \">>>(\"[0]>>>(x);", CALL("1, \">>>(\"[0]", "f(x)") ";");
    becomes("f <<<1, 1>>> (x);", CALL("1, 1", "f(x)") ";");
}

static void what_is_no_launch(void **state)
{
    (void)state;
    stays("auto s = \"f<<<1, 2>>>(x) __global__\"; // f<<<1, 2>>>(x)\n/* __shared__ f<<<1, 2>>>(x) */ int i;\n");
    stays("auto r = R\"d(f<<<1, 2>>>(x) )\" __global__)d\", u = u8R\"(__shared__ \")\"; char c = '\\'', d = "
          "'\"';\n");
    stays("template <class T> std::ostream &operator<<<T>(std::ostream &, T);\n");
    stays("int a = b << 3 >> 1, n = 1'000'000 + 0x1p-3 + 1e+5; std::cout << x << (a < b) << y;\n");
    stays("vector<vector<vector<int>>> v(3); x = a<b, c>>>(d);\n");
    stays("# 1 \"/usr/include/x.h\" 1 3\nf<<<1, 2>>>(x); __global__ void g(); __shared__ int s; __noinline__\n");
    stays("__attribute__((__noinline__)) void f(); __attribute__((cold, __noinline__)) void g();\n");
    becomes("__noinline__ void f();", "__attribute__((__noinline__)) void f();");
    becomes("x ? void(0) : __assert_fail(\"x\", \"f\", 3, p);",
            "x ? void(0) : ::leat_kernel_assert(\"x\", \"f\", 3, p);");
    stays("extern void __assert_fail(const char *);\n");
}

/* The expected translation of a kernel: its head, its name, the parameters of its body, the body, the types of the
 * parameters, the kernel as a template argument, and the names of the parameters. */
#define KERNEL(head, name, parameters, body, types, self, names)                                                  \
    head "{ struct leat_kernel { static const char *name() { return \"" name "\"; } static void run(" parameters  \
         ")" body " }; ::leat_cuda_stub<leat_kernel, void (*)(" types "), &" self ">::launch(" names "); }"
#define TYPE(name) "::leat_parameter<decltype(" name ")>"

static void kernels(void **state)
{
    (void)state;
    becomes("__global__ void f(int *a, const float b) { a[0] = b; }",
            KERNEL("void f(int *a, const float b)", "f", "int *a, const float b", "{ a[0] = b; }",
                   TYPE("a") "," TYPE("b"), "f", "a, b"));
    becomes("static __global__ void f() { return; }",
            KERNEL("static void f()", "f", "", "{ return; }", "", "f", ""));
    becomes("void __global__ f(void) {}", KERNEL("void f(void)", "f", "", "{}", "", "f", ""));
    becomes("template <class T, int N = 4> __global__ void f(T *a, T b = T(2)) {}",
            KERNEL("template <class T, int N = 4> void f(T *a, T b = T(2))", "f", "T *a, T b", "{}",
                   TYPE("a") "," TYPE("b"), "f<T, N>", "a, b"));
    becomes(
        "template <class... A> __global__ void f(A... a) {}",
        KERNEL("template <class... A> void f(A... a)", "f", "A... a", "{}", TYPE("a") "...", "f<A...>", "a..."));
    becomes("template <class T, typename = X<T>> __global__ void f(T a) {}",
            KERNEL("template <class T, typename = X<T>> void f(T a)", "f", "T a", "{}", TYPE("a"), "f<T>", "a"));
    becomes("template <template <class> class C, class T> __global__ void f(C<T> a) {}",
            KERNEL("template <template <class> class C, class T> void f(C<T> a)", "f", "C<T> a", "{}", TYPE("a"),
                   "f<C, T>", "a"));
    becomes("template <> __global__ void f<float>(float *a) {}",
            KERNEL("template <> void f<float>(float *a)", "f", "float *a", "{}", TYPE("a"), "f<float>", "a"));
    becomes("__global__ void n::f(int a) {}",
            KERNEL("void n::f(int a)", "f", "int a", "{}", TYPE("a"), "n::f", "a"));
    becomes("extern \"C\" __global__ __attribute__((aligned(4))) void f(int a) noexcept {}",
            KERNEL("extern \"C\" __attribute__((aligned(4))) void f(int a) noexcept", "f", "int a", "{}",
                   TYPE("a"), "f", "a"));
    /* Parameters of all kinds. The translator names parameters that have no name. */
    becomes("__global__ void f(int, float *, const A b, std::size_t, T<1, 2> c = {3, 4}) {}",
            KERNEL("void f(int leat_parameter_0, float *leat_parameter_1, const A b, std::size_t "
                   "leat_parameter_3, T<1, 2> "
                   "c = {3, 4})",
                   "f", "int, float *, const A b, std::size_t, T<1, 2> c", "{}",
                   TYPE("leat_parameter_0") "," TYPE("leat_parameter_1") "," TYPE("b") "," TYPE(
                       "leat_parameter_3") "," TYPE("c"),
                   "f", "leat_parameter_0, leat_parameter_1, b, leat_parameter_3, c"));
    becomes("__global__ void f(void (*call)(int, int), int a[3], struct S s, unsigned n) {}",
            KERNEL("void f(void (*call)(int, int), int a[3], struct S s, unsigned n)", "f",
                   "void (*call)(int, int), int a[3], struct S s, unsigned n", "{}",
                   TYPE("call") "," TYPE("a") "," TYPE("s") "," TYPE("n"), "f", "call, a, s, n"));
    /* A declaration of a kernel becomes a declaration of the function that launches it. */
    becomes("__global__ void f(int a);", "void f(int a);");
    becomes("template <class T> __global__ void f(T a); template __global__ void f<int>(int);",
            "template <class T> void f(T a); template void f<int>(int);");
    becomes("template <class T> __global__ void f(T a) { f<T><<<1, 1>>>(a); }",
            KERNEL("template <class T> void f(T a)", "f", "T a", "{" CALL("1, 1", "f<T>(a)") "; }", TYPE("a"),
                   "f<T>", "a"));
}

static void shared_variables(void **state)
{
    (void)state;
    becomes("void f() { __shared__ float a[3][4], b; }", "void f() { thread_local float a[3][4], b; }");
    becomes("void f() { extern __shared__ float s[]; s[0] = 1; }",
            "void f() { float *const s = static_cast<float *>(::leat_dynamic_shared()); s[0] = 1; }");
    becomes("void f() { extern __shared__ volatile int s[]; }",
            "void f() { volatile int *const s = static_cast<volatile int *>(::leat_dynamic_shared()); }");
    becomes("void f() { volatile __shared__ extern unsigned char s[]; }",
            "void f() { volatile unsigned char *const s = static_cast<volatile unsigned char "
            "*>(::leat_dynamic_shared()); }");
    becomes("void f() { extern __shared__ __attribute__((aligned(16))) T s[]; }",
            "void f() { T *const s = static_cast<T *>(::leat_dynamic_shared()); }");
    becomes("void f() { extern __shared__ int s[][33]; }",
            "void f() { int (*const s)[33] = static_cast<int (*)[33]>(::leat_dynamic_shared()); }");
    becomes("void f() { extern __shared__ S s; }",
            "void f() { S &s = *static_cast<S *>(::leat_dynamic_shared()); }");
    becomes("template <class T> struct M { operator T *() const { extern __shared__ int s[]; return (T *)s; } };",
            "template <class T> struct M { operator T *() const { int *const s = static_cast<int "
            "*>(::leat_dynamic_shared()); return (T *)s; } };");
    /* Dynamic shared memory may also be declared outside of functions. */
    becomes("extern __shared__ float s[];", "static const ::leat_dynamic_shared_as<float> s = {};");
    becomes("namespace n { extern __shared__ float s[]; void f() { extern __shared__ int t[]; } }",
            "namespace n { static const ::leat_dynamic_shared_as<float> s = {}; void f() { int *const t = "
            "static_cast<int *>(::leat_dynamic_shared()); } }");
    becomes("__shared__ int a[4]; static __shared__ int b;",
            "static thread_local int a[4]; static thread_local int b;");
    becomes("template <class T = int> __global__ void f() { extern __shared__ T s[]; }",
            KERNEL("template <class T = int> void f()", "f", "",
                   "{ T *const s = static_cast<T *>(::leat_dynamic_shared()); }", "", "f<T>", ""));
}

/* The rest of the file must stay on the same lines, even after constructs that span several lines. */
static void lines(void **state)
{
    char *out;

    (void)state;
    stays("# 1 \"a.cu\"\n\n\nint a;\n\n  int b; \t\n");
    out = translated("# 1 \"a.cu\"\nf<<<1,\n  2>>>(x,\n y);\nint a;\n");
    assert_non_null(strstr(out, "\n# 3 \"a.cu\"\n;\nint a;\n"));
    free(out);
    out = translated("__global__ void f(int a,\n int b)\n{\n a;\n}\nint c;\n");
    assert_non_null(strstr(out, "\n int b) {"));
    assert_non_null(strstr(out, "\n{\n a;\n} };"));
    assert_non_null(strstr(out, "}\nint c;\n"));
    free(out);
    /* The translator removes nvcc's pragmas, and keeps other pragmas. */
    becomes("void f() {\n#pragma unroll 4\n for (;;) ;\n#pragma omp parallel\n}",
            "void f() {\n\n for (;;) ;\n#pragma omp parallel\n}");
    stays("#pragma GCC unroll 4\n#pragma once\n");
}

static void what_cannot_be_seen(void **state)
{
    (void)state;
    refused("# 7 \"x.cu\"\nint a;\nf<<<1, 2>>>;", 8, ">>>(");
    refused("f<<<1, 2(x);", 1, ">>>(");
    refused("f<<<1, 2>>>(x;", 1, "no end");
    refused("= <<<1, 2>>>(x);", 1, "which kernel");
    refused("\n\n__global__ void f(int a {", 3, "no end");
    refused("__global__ void f(int a) { if (x) {", 1, "no end");
    refused("void f() { extern __shared__ int a[], b[]; }", 1, "one variable");
    refused("extern __shared__ int a[][3];", 1, "TYPE NAME[]");
    refused("__shared__ int a", 1, "no end");
}

/* A file may end anywhere. The translator must translate or refuse every prefix of a file, without a crash. */
static void files_that_are_cut_off(void **state)
{
    static const char source[] =
        "# 1 \"a.cu\"\ntemplate <class T, int N = (3 > 2)> __global__ void f(T *__restrict__ a, int (*p)(int), T "
        "b = {1, 2}) { "
        "extern __shared__ __attribute__((aligned(8))) T s[][N]; __shared__ int c; f<T, N><<<dim3(1, 2), "
        "A<B<C<int>>>::v, "
        "3>>>(a, p, R\"x(>>>)x\"); assert(c); '\\''; 1'000 /* c */; } // d\nextern __shared__ int t[];";

    (void)state;
    for (size_t begin = 0; begin < sizeof source; begin += 7)
        for (size_t bytes = 0; begin + bytes < sizeof source; bytes++) {
            char *part = malloc(bytes + 1); /* exact size, so that a sanitizer reports reads past the end */
            struct cu_error error;
            char *out;

            assert_non_null(part);
            memcpy(part, source + begin, bytes);
            part[bytes] = '\0';
            out = cu_source_translate(part, bytes, &error);
            assert_true(out || error.text[0]);
            free(out);
            free(part);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(launches),
    cmocka_unit_test(configurations),
    cmocka_unit_test(what_is_no_launch),
    cmocka_unit_test(kernels),
    cmocka_unit_test(shared_variables),
    cmocka_unit_test(lines),
    cmocka_unit_test(what_cannot_be_seen),
    cmocka_unit_test(files_that_are_cut_off),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
