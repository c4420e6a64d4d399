package process

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/secret"
)

// front is the listener for app traffic: plain, or TLS when it has a
// certificate. A new one counts for the connections that come after it.
type front struct {
	net.Listener
	log  zerolog.Logger
	cert atomic.Pointer[certificate] // nil: plain
	turn chan struct{}               // cap 1: the files are other ones
	// secrets are those of the cluster; nil: it has none.
	secrets atomic.Pointer[secret.List]
	now     func() time.Time
}

// certificate is one that was read from files.
type certificate struct {
	files [2]string // certificate and key
	seen  secret.FileState
	tls   tls.Certificate
	conf  *tls.Config
	keys  *tickets
}

// readCertificate reads the files; without names there is none.
func readCertificate(certFile, keyFile string) (*certificate, error) {
	if certFile == "" {
		return nil, nil //nolint:nilnil // plain
	}
	seen := secret.StatFiles(certFile, keyFile)
	pair, err := secret.KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	c := &certificate{
		files: [2]string{certFile, keyFile}, seen: seen, tls: pair,
		conf: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
	}
	c.keys = newTickets(c.conf, pair.Leaf)
	c.conf.GetConfigForClient = c.keys.config
	return c, nil
}

// newFront makes the front of a listener.
func newFront(ln net.Listener, cert *certificate, log zerolog.Logger) *front {
	f := &front{Listener: ln, log: log, turn: make(chan struct{}, 1), now: time.Now}
	f.cert.Store(cert)
	return f
}

// Accept takes a connection. The handshake is not done yet: it must not keep
// others waiting.
func (f *front) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return f.Adopt(conn), nil
}

// Adopt makes of a connection to the socket what Accept would have made of it.
func (f *front) Adopt(conn net.Conn) net.Conn {
	c := f.cert.Load()
	if c == nil {
		return conn
	}
	if l := f.secrets.Load(); l != nil {
		c.keys.renew(l, secret.TicketDayOf(f.now()))
	}
	return tls.Server(conn, c.conf)
}

// share has clients resume at every node with the same secrets.
func (f *front) share(l secret.List) { f.secrets.Store(&l) }

// SyscallConn gives access to the socket: before it is closed, all that waits
// there is taken.
func (f *front) SyscallConn() (syscall.RawConn, error) {
	if c, ok := f.Listener.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, fmt.Errorf("process: socket of %T: %w", f.Listener, errors.ErrUnsupported)
}

// SetDeadline bounds Accept.
func (f *front) SetDeadline(t time.Time) error {
	if d, ok := f.Listener.(interface{ SetDeadline(t time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return fmt.Errorf("process: %T has no deadlines", f.Listener)
}

// replace makes c the certificate from now on.
func (f *front) replace(c *certificate) {
	f.cert.Store(c)
	select {
	case f.turn <- struct{}{}:
	default:
	}
}

// run reads the files again when they change, until ctx ends.
func (f *front) run(ctx context.Context) {
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if c := f.cert.Load(); c != nil {
				c.seen.Watch(watching, func() { f.refresh(c.files) })
			}
		}()
		select {
		case <-ctx.Done():
		case <-f.turn:
		}
		stop()
		<-ended
	}
}

// refresh reads the files again. What is wrong with them leaves the certificate
// that is in use.
func (f *front) refresh(files [2]string) {
	now := f.cert.Load()
	next, err := readCertificate(files[0], files[1])
	switch {
	case now == nil || now.files != files: // a reload was quicker
	case err != nil:
		f.log.Error().Err(err).Time("until", now.tls.Leaf.NotAfter).Msg("certificate not replaced: the old one stays in use")
	case !bytes.Equal(next.tls.Leaf.Raw, now.tls.Leaf.Raw) && f.cert.CompareAndSwap(now, next):
		f.log.Info().Str("serial", next.tls.Leaf.SerialNumber.Text(16)).Time("until", next.tls.Leaf.NotAfter).Msg("certificate replaced")
	}
}
