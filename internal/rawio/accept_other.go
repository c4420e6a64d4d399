//go:build !(linux && (amd64 || arm64))

package rawio

import (
	"errors"
	"net"
	"time"
)

// SetInheritedOptions does nothing: Accept is not available on this platform.
func SetInheritedOptions(uintptr) error { return nil }

// SetUserTimeout does nothing: the option is not portable.
func SetUserTimeout(uintptr, time.Duration) error { return nil }

// Accept returns nil on this platform. Use net.Listener.Accept.
func Accept(uintptr) net.Conn { return nil }

// Adopt returns conn unchanged on this platform.
func Adopt(conn net.Conn) net.Conn { return conn }

// IsRegistered returns false on this platform.
func IsRegistered(net.Conn) bool { return false }

// Unregister is not supported on this platform.
func Unregister(net.Conn) error { return errors.ErrUnsupported }
