package drain

import (
	"math"
	"net"
	"syscall"
)

// onlyBegun is a filter for the packets of a listener, in the kernel's BPF. It drops the packets that begin a
// connection: in byte 13 of their TCP header the flag SYN is set and ACK is clear.
var onlyBegun = []syscall.SockFilter{
	{Code: syscall.BPF_LD | syscall.BPF_B | syscall.BPF_ABS, K: 13},
	{Code: syscall.BPF_ALU | syscall.BPF_AND | syscall.BPF_K, K: 0x12},
	{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, K: 0x02, Jt: 0, Jf: 1},
	{Code: syscall.BPF_RET | syscall.BPF_K, K: 0},
	{Code: syscall.BPF_RET | syscall.BPF_K, K: math.MaxUint32},
}

// ignoreNew makes the kernel ignore new connections to a listener and complete the connections that it has begun to
// accept. Their clients try again after a second, as after any lost packet, and then reach the next process or are
// refused. An error leaves the listener as it is.
func ignoreNew(l *net.TCPListener) {
	if raw, err := l.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.AttachLsf(int(fd), onlyBegun) })
	}
}
