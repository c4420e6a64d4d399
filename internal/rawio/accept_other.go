//go:build !(linux && (amd64 || arm64))

package rawio

import "net"

// Inherit does nothing: there is no Accept.
func Inherit(uintptr) error { return nil }

// Accept takes nothing here: net.Listener.Accept does.
func Accept(uintptr) net.Conn { return nil }
