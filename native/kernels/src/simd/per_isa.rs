//! Functions that are compiled once for each instruction set.

/// Declares functions whose body is compiled for every level of [`Isa`](crate::simd::Isa) and chosen at run time.
///
/// A debug build has the portable version alone, as [`multiversion`](crate::simd::multiversion) says.
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

            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            #[target_feature(enable = "avx2,fma")]
            fn avx2 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                portable $(::<$($g),+>)? ($($arg),*)
            }

            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            #[target_feature(enable = "avx2,fma,avx512f")]
            fn avx512 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                portable $(::<$($g),+>)? ($($arg),*)
            }

            #[allow(clippy::match_single_binding)] // a debug build has the last arm alone
            match $crate::simd::Isa::current() {
                // SAFETY: `Isa::current` names a level only if the processor has its instructions.
                #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
                $crate::simd::Isa::Avx512 => unsafe { avx512 $(::<$($g),+>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
                $crate::simd::Isa::Avx2 => unsafe { avx2 $(::<$($g),+>)? ($($arg),*) },
                _ => portable $(::<$($g),+>)? ($($arg),*),
            }
        }
    };
}
pub(crate) use per_isa;
