//! Functions that are compiled once for each instruction set.

/// Declares functions whose body is compiled for every level of [`Isa`](crate::simd::Isa) and chosen at run time.
///
/// The body should be loops over slices that the compiler can vectorise; what it calls must be inlined into it. Each
/// call costs a look at [`Isa::current`](crate::simd::Isa::current), so a call should do some hundred operations.
macro_rules! per_isa {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$($g:ident: $bound:path),+ $(,)?>)? ($($arg:ident: $t:ty),* $(,)?) $(-> $r:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        $vis fn $name $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
            #[inline(always)]
            fn portable $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                portable $(::<$($g),+>)? ($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f")]
            fn avx512 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                portable $(::<$($g),+>)? ($($arg),*)
            }

            match $crate::simd::Isa::current() {
                // SAFETY: `Isa::current` names a level only if the processor has its instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Isa::Avx512 => unsafe { avx512 $(::<$($g),+>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Isa::Avx2 => unsafe { avx2 $(::<$($g),+>)? ($($arg),*) },
                _ => portable $(::<$($g),+>)? ($($arg),*),
            }
        }
    };
}
pub(crate) use per_isa;
