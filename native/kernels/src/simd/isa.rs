//! Which vector instruction set to use.

use std::sync::OnceLock;

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What the compiler may assume on every processor of the target.
    Portable,
    /// AVX2 with fused multiply-add: 32-byte vectors.
    Avx2,
    /// AVX-512F: 64-byte vectors.
    Avx512,
}

impl Isa {
    /// The instruction set in use: the best that the processor has, or the one named by the environment variable `FERROMX_ISA`
    /// (`avx512`, `avx2` or `portable`) if the processor has it. Determined once.
    pub fn current() -> Isa {
        static CURRENT: OnceLock<Isa> = OnceLock::new();
        *CURRENT.get_or_init(|| Isa::choose(std::env::var("FERROMX_ISA").ok().as_deref(), Isa::best()))
    }

    /// The instruction set called `name`, else `best`; warns if `name` is unknown or unavailable.
    fn choose(name: Option<&str>, best: Isa) -> Isa {
        let Some(name) = name else { return best };
        match Isa::parse(name) {
            Some(isa) if isa <= best => return isa,
            Some(isa) => log::warn!("FERROMX_ISA={name}: this processor has no {isa:?} instructions, using {best:?}"),
            None => log::warn!("FERROMX_ISA={name}: expected avx512, avx2 or portable; using {best:?}"),
        }
        best
    }

    /// Every instruction set that the processor has, the best one last.
    pub fn available() -> impl Iterator<Item = Isa> {
        let best = Isa::best();
        [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(move |&isa| isa <= best)
    }

    fn parse(name: &str) -> Option<Isa> {
        match name.trim().to_ascii_lowercase().as_str() {
            "portable" => Some(Isa::Portable),
            "avx2" => Some(Isa::Avx2),
            "avx512" => Some(Isa::Avx512),
            _ => None,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn best() -> Isa {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        match (avx2, is_x86_feature_detected!("avx512f")) {
            (true, true) => Isa::Avx512,
            (true, false) => Isa::Avx2,
            _ => Isa::Portable,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn best() -> Isa {
        Isa::Portable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Isa::parse("avx512"), Some(Isa::Avx512));
        assert_eq!(Isa::parse(" AVX2 "), Some(Isa::Avx2));
        assert_eq!(Isa::parse("portable"), Some(Isa::Portable));
        assert_eq!(Isa::parse("sse9"), None);
        assert_eq!(Isa::choose(None, Isa::Avx2), Isa::Avx2);
        assert_eq!(Isa::choose(Some("portable"), Isa::Avx2), Isa::Portable);
        assert_eq!(Isa::choose(Some("avx512"), Isa::Avx2), Isa::Avx2);
        assert_eq!(Isa::choose(Some("sse9"), Isa::Avx2), Isa::Avx2);
        assert!(Isa::available().any(|isa| isa == Isa::current()));
    }
}
