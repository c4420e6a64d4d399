//go:build !linux

package peer

import (
	"net"
	"time"
)

// setUserTimeout has no portable form.
func setUserTimeout(*net.TCPConn, time.Duration) {}
