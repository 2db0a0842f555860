/* Functions of encode_lanes.h, for one tier. They take addresses: wide vectors have no calling convention of
 * their own where a processor lacks them. */
ENCODE_INLINE encode_lanes TIER(at)(const float *at) {
    encode_lanes v;
    memcpy(&v, at, sizeof v);
    return v;
}

ENCODE_INLINE encode_lanes TIER(of)(float v) {
    return (encode_lanes){v, v, v, v, v, v, v, v};
}

/* *v is put at `at` as encode_nearest of encode_clamp. */
ENCODE_INLINE encode_lanes TIER(put_nearest)(float *at, const encode_lanes *v, float lo, float hi) {
    const encode_lanes least = TIER(of)(lo), most = TIER(of)(hi), shift = TIER(of)(12582912.0f);
    encode_mask m = *v > least;
    encode_lanes t = (encode_lanes)((m & (encode_mask)*v) | (~m & (encode_mask)least));
    m = t < most;
    t = (encode_lanes)((m & (encode_mask)t) | (~m & (encode_mask)most));
    t = (t + shift) - shift;
    memcpy(at, &t, sizeof t);
    return t;
}

ENCODE_INLINE float TIER(sum)(const encode_lanes *v) {
    const encode_half_lanes low = __builtin_shufflevector(*v, *v, 0, 1, 2, 3);
    const encode_half_lanes high = __builtin_shufflevector(*v, *v, 4, 5, 6, 7);
    const encode_half_lanes t = low + high;
    return (t[0] + t[2]) + (t[1] + t[3]);
}
