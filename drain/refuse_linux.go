package drain

import (
	"math"
	"net"
	"syscall"
)

const (
	bindToInterface = 0x3e          // SO_BINDTOIFINDEX, which package syscall does not name
	noInterface     = math.MaxInt32 // an index that no network interface has
)

// refuseNew makes the kernel refuse new connections to a listener, and complete those that it has begun to accept. For that
// the listener is bound to a network interface that does not exist, which needs Linux 5.7 and no privilege. It cannot be
// undone without one, so the socket must be of this process alone. An error leaves the listener as it is.
func refuseNew(l *net.TCPListener) {
	if raw, err := l.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, bindToInterface, noInterface)
		})
	}
}
