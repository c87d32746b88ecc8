//! What a worker may use, and how a request to fork one carries it.

/// Stack for compiling. The engine stops programs long before; see [`crate::last_words`] for what
/// happens at the end of it.
pub(super) const STACK_BYTES: u64 = 64 * 1024 * 1024;
/// Address space beyond the engine's memory: the binary, the compiler's arena, the stack, frames.
pub(super) const ADDRESS_SPACE_BYTES: u64 = 1024 * 1024 * 1024;

/// What the host asks of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Most memory that a program may be given.
    pub memory_bytes: u64,
    /// CPU time after which the kernel kills, whatever the engine says.
    pub cpu_seconds: u64,
}

impl WorkerLimits {
    /// Length of [`WorkerLimits::to_bytes`].
    pub const BYTES: usize = 16;

    /// The form in which a request to fork a worker carries them.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.memory_bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.cpu_seconds.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> WorkerLimits {
        let (memory, cpu) = bytes.split_at(8);
        let number = |half: &[u8]| half.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        WorkerLimits { memory_bytes: number(memory), cpu_seconds: number(cpu) }
    }
}

#[cfg(test)]
mod tests {
    use super::WorkerLimits;

    #[test]
    fn limits_survive_the_request() {
        let limits = WorkerLimits { memory_bytes: 0x0102_0304_0506_0708, cpu_seconds: 31 };
        assert_eq!(WorkerLimits::from_bytes(limits.to_bytes()), limits);
    }
}
