/* Times llama.cpp's vision encoder alone, for tools/bench_vision: mtmd_encode MMPROJ WIDTH HEIGHT THREADS TIMES. Prints
 * seconds, and processor seconds of all threads, of each time. Compiled against its tools/mtmd, of which clip.h is
 * internal: it may change. */
#include "clip.h"
#include "clip-impl.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: mtmd_encode MMPROJ WIDTH HEIGHT THREADS TIMES\n");
        return 2;
    }
    const int width = atoi(argv[2]), height = atoi(argv[3]), threads = atoi(argv[4]), times = atoi(argv[5]);
    clip_context_params params = {};
    params.use_gpu = false;
    params.flash_attn_type = CLIP_FLASH_ATTN_TYPE_AUTO;
    params.image_min_tokens = params.image_max_tokens = -1;
    params.warmup = true;
    clip_ctx *ctx = clip_init(argv[1], params).ctx_v;
    if (ctx == nullptr)
        return 1;
    clip_image_f32 image;
    std::vector<float> pixels((size_t)width * height * 3), out;
    for (size_t i = 0; i < pixels.size(); i++)
        pixels[i] = (float)(i * 7 % 255) / 127.5f - 1.0f;
    image.set_size({width, height}, false, false);
    image.cpy_buf(pixels);
    printf("tokens %d\n", clip_n_output_tokens(ctx, &image));
    for (int i = 0; i < times; i++) {
        const auto begin = std::chrono::steady_clock::now();
        const std::clock_t processor = std::clock();
        if (!clip_image_encode(ctx, threads, &image, out))
            return 1;
        printf("seconds %.3f %.3f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
               (double)(std::clock() - processor) / CLOCKS_PER_SEC);
        fflush(stdout);
    }
    clip_free(ctx);
    return 0;
}
