//! Devices. A context names the device on which an array is stored or an operator runs.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Kind of device, with the codes of the C API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum DeviceType {
    /// The CPU.
    Cpu = 1,
    /// A CUDA device; this build has no backend for it.
    Gpu = 2,
    /// Page-locked host memory; without a GPU backend the same as `Cpu`.
    CpuPinned = 3,
    /// Memory shared between processes; behaves like `Cpu`.
    CpuShared = 5,
}

impl DeviceType {
    const ALL: [DeviceType; 4] = [DeviceType::Cpu, DeviceType::Gpu, DeviceType::CpuPinned, DeviceType::CpuShared];

    /// MXNet's name, such as `cpu_pinned`.
    const fn name(self) -> &'static str {
        match self {
            DeviceType::Cpu => "cpu",
            DeviceType::Gpu => "gpu",
            DeviceType::CpuPinned => "cpu_pinned",
            DeviceType::CpuShared => "cpu_shared",
        }
    }
}

/// A device: its kind and index. `cpu(0)` and `cpu(1)` are distinct, with copies between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Context {
    /// Kind of device.
    pub device_type: DeviceType,
    /// Index of the device among those of its kind.
    pub device_id: i32,
}

impl Context {
    /// The CPU of index `id`.
    pub const fn cpu(id: i32) -> Context {
        Context { device_type: DeviceType::Cpu, device_id: id }
    }

    /// From the codes of the C API. A negative index means the first device of the kind.
    ///
    /// # Errors
    /// An unknown kind, or a GPU: this build has no GPU backend and never falls back silently.
    pub fn from_codes(device_type: i32, device_id: i32) -> Result<Context> {
        let Some(kind) = DeviceType::ALL.into_iter().find(|kind| *kind as i32 == device_type) else {
            return Err(Error::Value(format!(
                "device type {device_type} is unknown: use 1 (cpu), 3 (cpu_pinned) or 5 (cpu_shared)"
            )));
        };
        if kind == DeviceType::Gpu {
            return Err(Error::Unsupported(format!(
                "GPU is not enabled: gpu({device_id}) was requested, but this build has no GPU backend: use cpu()"
            )));
        }
        Ok(Context { device_type: kind, device_id: device_id.max(0) })
    }

    /// The device of an imperative result whose first input is on this device. Pinned and shared memory serve transfers only, so results
    /// are in ordinary memory: they can be combined with parameters, as in MXNet.
    pub fn for_results(self) -> Context {
        match self.device_type {
            DeviceType::CpuPinned => Context::cpu(self.device_id),
            DeviceType::CpuShared => Context::cpu(0),
            DeviceType::Cpu | DeviceType::Gpu => self,
        }
    }
}

impl Default for Context {
    fn default() -> Context {
        Context::cpu(0)
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.device_type.name(), self.device_id)
    }
}

impl FromStr for Context {
    type Err = Error;

    /// Parses `cpu(0)`; an empty string is the default device.
    fn from_str(s: &str) -> Result<Context> {
        if s.is_empty() {
            return Ok(Context::default());
        }
        let parsed = s.strip_suffix(')').and_then(|s| s.split_once('(')).and_then(|(kind, id)| {
            let kind = DeviceType::ALL.into_iter().find(|device_type| device_type.name() == kind)?;
            Some((kind as i32, id.parse().ok()?))
        });
        let (code, id) = parsed.ok_or_else(|| Error::Value(format!("'{s}' is not a context: write cpu(0)")))?;
        Context::from_codes(code, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_printed_as_they_are_parsed() {
        for text in ["cpu(0)", "cpu(3)", "cpu_pinned(0)", "cpu_shared(1)"] {
            assert_eq!(text.parse::<Context>().unwrap().to_string(), text);
        }
        assert_eq!("".parse(), Ok(Context::cpu(0)));
        assert!("cpu".parse::<Context>().unwrap_err().to_string().contains("write cpu(0)"));
    }

    #[test]
    fn gpus_and_unknown_codes_are_errors() {
        assert_eq!(Context::from_codes(3, -1).unwrap().to_string(), "cpu_pinned(0)");
        assert!(Context::from_codes(2, 1).unwrap_err().to_string().contains("gpu(1) was requested"));
        assert!(Context::from_codes(4, 0).unwrap_err().to_string().contains("device type 4 is unknown"));
    }
}
