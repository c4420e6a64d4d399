package rawio

import "net"

// IsDirect reports whether the bytes of the connection are the bytes of its socket. With TLS, they are not. A
// connection without a method Direct is not direct.
func IsDirect(conn net.Conn) bool {
	direct, ok := conn.(interface{ Direct() bool })
	return ok && direct.Direct()
}
