//! Hue, lightness and saturation of RGB images.

/// Shifts hue (0 to 180), lightness and saturation (0 to 255) of RGB pixels.
pub fn shift_hls(samples: &mut [u8], shift: [f32; 3]) {
    for pixel in samples.as_chunks_mut::<3>().0 {
        let hls = to_hls(*pixel);
        *pixel = from_hls([
            (hls[0] + shift[0]).clamp(0.0, 180.0),
            (hls[1] + shift[1]).clamp(0.0, 255.0),
            (hls[2] + shift[2]).clamp(0.0, 255.0),
        ]);
    }
}

/// Converts RGB to hue (0 to 180), lightness and saturation (0 to 255).
fn to_hls(pixel: [u8; 3]) -> [f32; 3] {
    let [r, g, b] = pixel.map(|x| f32::from(x) / 255.0);
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    let (range, sum) = (max - min, max + min);
    if range == 0.0 {
        return [0.0, 127.5 * sum, 0.0];
    }
    let saturation = range / if sum < 1.0 { sum } else { 2.0 - sum };
    let sixth = match max {
        m if m == r => (g - b) / range,
        m if m == g => 2.0 + (b - r) / range,
        _ => 4.0 + (r - g) / range,
    };
    [sixth.rem_euclid(6.0) * 30.0, 127.5 * sum, 255.0 * saturation]
}

/// The inverse of [`to_hls`].
fn from_hls([hue, lightness, saturation]: [f32; 3]) -> [u8; 3] {
    let (l, s) = (lightness / 255.0, saturation / 255.0);
    let max = if l <= 0.5 { l * (1.0 + s) } else { l + s - l * s };
    let min = 2.0 * l - max;
    let channel = |offset: f32| {
        // The hue in sixths of the circle, shifted so that the channel peaks from 1 to 3.
        let sixth = (hue / 30.0 + offset).rem_euclid(6.0);
        let weight = if sixth < 1.0 {
            sixth
        } else if sixth < 3.0 {
            1.0
        } else if sixth < 4.0 {
            4.0 - sixth
        } else {
            0.0
        };
        ((min + (max - min) * weight) * 255.0).round().clamp(0.0, 255.0) as u8
    };
    [channel(2.0), channel(0.0), channel(4.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_survive_a_round_trip_through_hls() {
        for pixel in [[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 255, 0], [12, 200, 255], [90, 91, 17], [128, 5, 130]]
        {
            assert_eq!(from_hls(to_hls(pixel)), pixel);
        }
        assert_eq!(to_hls([0, 255, 0]), [60.0, 127.5, 255.0]);
    }

    #[test]
    fn shifts_stop_at_the_ends_of_their_range() {
        let mut pixels = [255, 0, 0, 10, 10, 10];
        shift_hls(&mut pixels, [60.0, 0.0, 0.0]);
        assert_eq!(pixels, [0, 255, 0, 10, 10, 10]);
        shift_hls(&mut pixels, [0.0, 300.0, 0.0]);
        assert_eq!(pixels, [255; 6]);
    }
}
