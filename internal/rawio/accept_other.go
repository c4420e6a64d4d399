//go:build !(linux && (amd64 || arm64))

package rawio

import (
	"errors"
	"net"
	"time"
)

// Inherit does nothing: there is no Accept.
func Inherit(uintptr) error { return nil }

// SetUserTimeout has no portable form, and does nothing.
func SetUserTimeout(uintptr, time.Duration) error { return nil }

// Accept takes nothing here: net.Listener.Accept does.
func Accept(uintptr) net.Conn { return nil }

// Adopt leaves a connection as it is here.
func Adopt(conn net.Conn) net.Conn { return conn }

// Known knows of no such connection here.
func Known(net.Conn) bool { return false }

// Part has nothing to part here.
func Part(net.Conn) error { return errors.ErrUnsupported }
