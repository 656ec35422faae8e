//! The vector instruction sets, and the one in use.

use super::Isa;
use std::sync::OnceLock;

/// Declares the instruction sets of [`Isa`]: the name for `FERROMX_ISA`, the architecture, the test for the processor's support, and the
/// module with the microkernels `F32` and `F64`.
macro_rules! instruction_sets {
    ($($(#[$doc:meta])* $isa:ident = $name:literal on $arch:tt if $available:expr, in $module:ident;)*) => {
        /// A set of vector instructions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Isa {
            /// What the compiler may assume on every processor of the target.
            Portable,
            $($(#[$doc])* $isa,)*
        }

        impl Isa {
            /// Every instruction set with its name, from the least to the most capable.
            const ALL: &[(Isa, &str)] = &[(Isa::Portable, "portable"), $((Isa::$isa, $name)),*];

            /// True if the processor has the instructions.
            fn is_available(self) -> bool {
                match self {
                    Isa::Portable => true,
                    $(
                        #[cfg(target_arch = $arch)]
                        Isa::$isa => $available,
                        #[cfg(not(target_arch = $arch))]
                        Isa::$isa => false,
                    )*
                }
            }
        }

        $crate::simd::isa::instruction_sets!(microkernel microkernel_f32: f32, F32; $($isa $arch $module)*);
        $crate::simd::isa::instruction_sets!(microkernel microkernel_f64: f64, F64; $($isa $arch $module)*);
    };
    (microkernel $function:ident: $t:ty, $kernel:ident; $($isa:ident $arch:tt $module:ident)*) => {
        /// The microkernel of an instruction set.
        fn $function(isa: Isa) -> &'static microkernel::MicroKernel<$t> {
            match isa {
                $(
                    #[cfg(target_arch = $arch)]
                    Isa::$isa => &$module::$kernel,
                )*
                _ => &portable::$kernel,
            }
        }
    };
}
pub(super) use instruction_sets;

impl Isa {
    /// The instruction set in use: the best that the processor has, or the one named by the environment variable `FERROMX_ISA` if
    /// the processor has it. Determined once.
    pub fn current() -> Isa {
        static CURRENT: OnceLock<Isa> = OnceLock::new();
        *CURRENT.get_or_init(|| Isa::choose(std::env::var("FERROMX_ISA").ok().as_deref(), Isa::available()))
    }

    /// Every instruction set that the processor has, the best one last.
    pub fn available() -> impl Iterator<Item = Isa> + Clone {
        Isa::ALL.iter().map(|(isa, _)| *isa).filter(|isa| isa.is_available())
    }

    /// The instruction set called `name`, else the best; warns if `name` is unknown or unavailable.
    fn choose(name: Option<&str>, available: impl Iterator<Item = Isa> + Clone) -> Isa {
        let best = available.clone().last().unwrap_or(Isa::Portable);
        let Some(name) = name else { return best };
        match Isa::parse(name) {
            Some(isa) if available.clone().any(|a| a == isa) => return isa,
            Some(isa) => log::warn!("FERROMX_ISA={name}: this processor has no {isa:?} instructions, using {best:?}"),
            None => {
                let names: Vec<_> = Isa::ALL.iter().map(|(_, name)| *name).collect();
                log::warn!("FERROMX_ISA={name}: expected one of {}; using {best:?}", names.join(", "));
            }
        }
        best
    }

    fn parse(name: &str) -> Option<Isa> {
        let name = name.trim().to_ascii_lowercase();
        Isa::ALL.iter().find(|(_, known)| *known == name).map(|(isa, _)| *isa)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_in_any_case() {
        assert_eq!(Isa::parse("avx512"), Some(Isa::Avx512));
        assert_eq!(Isa::parse(" AVX2 "), Some(Isa::Avx2));
        assert_eq!(Isa::parse("neon"), Some(Isa::Neon));
        assert_eq!(Isa::parse("portable"), Some(Isa::Portable));
        assert_eq!(Isa::parse("sse9"), None);
    }

    #[test]
    fn an_unknown_or_unavailable_set_gives_the_best() {
        let choose = |name| Isa::choose(name, [Isa::Portable, Isa::Avx2].into_iter());
        assert_eq!(choose(None), Isa::Avx2);
        assert_eq!(choose(Some("portable")), Isa::Portable);
        assert_eq!(choose(Some("avx512")), Isa::Avx2);
        assert_eq!(choose(Some("sse9")), Isa::Avx2);
        assert!(Isa::available().any(|isa| isa == Isa::current()));
        assert_eq!(Isa::available().any(|isa| isa == Isa::Neon), cfg!(target_arch = "aarch64"));
    }
}
