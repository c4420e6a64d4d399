package secret

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Conn is an authenticated TLS stream between two nodes.
type Conn struct {
	*tls.Conn
	raw     net.Conn
	wrapper *TLSWrapper
	leaf    *x509.Certificate
	root    rootFingerprint
}

// VerifyNode returns nil if the certificate of the peer is valid for node.
func (c *Conn) VerifyNode(node string) error { return verifyNodeID(c.leaf, node) }

// Direct returns false: the socket behind SyscallConn carries ciphertext, so it must not be
// read directly.
func (c *Conn) Direct() bool { return false }

// Read reads data of the peer. A rejection of this node's certificate arrives here and not
// in the handshake: with TLS 1.3 the client completes its handshake before the server has
// verified the client certificate.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		err = explainAlert(err)
	}
	return n, err
}

// Close closes the connection immediately, without a TLS close_notify alert, which would
// wait up to 5 s for a peer that does not read. No protocol between nodes treats the end of
// a stream as the end of a message.
func (c *Conn) Close() error {
	c.wrapper.unregister(c)
	return c.raw.Close()
}

// SetLinger sets how Close handles unsent data, as for a TCP connection.
func (c *Conn) SetLinger(sec int) error {
	if lingerer, ok := c.raw.(interface{ SetLinger(sec int) error }); ok {
		return lingerer.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

// SyscallConn returns access to the socket for inspection only: its data is ciphertext.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	socketConn, ok := c.raw.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("secret: raw access to %T: %w", c.raw, errors.ErrUnsupported)
	}
	return socketConn.SyscallConn()
}

// explainAlert adds the likely cause to a TLS alert of the peer.
func explainAlert(err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return err
	}
	return fmt.Errorf("secret: the other node refused this one's certificate or protocol: do both have the same secret (--secret-file) or authorities (--tls-ca)? %w", err)
}
