//go:build !linux

package drain

import "net"

// refuseNew does nothing: a connection that comes while the listener closes may be lost.
func refuseNew(*net.TCPListener) {}
