package secret

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Conn is a stream between two nodes that know each other.
type Conn struct {
	*tls.Conn
	raw  net.Conn
	seal *TLSWrapper
	leaf *x509.Certificate
	root root
}

// Vouch returns nil if the certificate at the other end is good for node.
func (c *Conn) Vouch(node string) error { return verifyNodeID(c.leaf, node) }

// Direct returns false: what SyscallConn reads is not what Read reads.
func (c *Conn) Direct() bool { return false }

// Read reads what the other node sent. A refusal of this node's certificate
// arrives here, not at the handshake: in TLS 1.3 the dialer is done with that
// before the other side has judged it.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		err = explainAlert(err)
	}
	return n, err
}

// Close closes the connection at once, without TLS's goodbye: that would wait
// up to 5 s for an other side that reads nothing. Nothing between nodes takes
// the end of a stream for the end of a message.
func (c *Conn) Close() error {
	c.seal.unregister(c)
	return c.raw.Close()
}

// SetLinger decides what closing does with unsent bytes, as for a TCP
// connection.
func (c *Conn) SetLinger(sec int) error {
	if t, ok := c.raw.(interface{ SetLinger(sec int) error }); ok {
		return t.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

// SyscallConn gives access to the socket, for looking at it only: what can be
// read there is cipher text.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	s, ok := c.raw.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("secret: raw access to %T: %w", c.raw, errors.ErrUnsupported)
	}
	return s.SyscallConn()
}

// explain says what an alert of the other side means between nodes.
func explainAlert(err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return err
	}
	return fmt.Errorf("secret: the other node refused this one's certificate or protocol: do both have the same secret (--secret-file) or authorities (--tls-ca)? %w", err)
}
