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

// tlsListener is the port for app traffic. It uses TLS if it has a certificate, and plain TCP
// otherwise. A new certificate applies to later connections.
type tlsListener struct {
	net.Listener
	log      zerolog.Logger
	cert     atomic.Pointer[certificate] // nil means plain TCP
	replaced chan struct{}               // capacity 1; signals that cert was replaced by a reload
	// secrets contains the secrets of the cluster for session tickets. It is nil if there are none.
	secrets atomic.Pointer[secret.List]
	now     func() time.Time
}

// certificate is a certificate that was loaded from files.
type certificate struct {
	files     [2]string // certificate and key
	fileState secret.FileState
	tls       tls.Certificate
	config    *tls.Config
	tickets   *sessionTickets
}

// readCertificate loads a certificate. It returns nil if certFile is empty.
func readCertificate(certFile, keyFile string) (*certificate, error) {
	if certFile == "" {
		return nil, nil //nolint:nilnil // nil means plain TCP
	}
	fileState := secret.StatFiles(certFile, keyFile)
	pair, err := secret.KeyPair(certFile, keyFile)
	if err != nil {
		return nil, &FileError{"tls-cert", err}
	}
	cert := &certificate{
		files: [2]string{certFile, keyFile}, fileState: fileState, tls: pair,
		config: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
	}
	cert.tickets = newSessionTickets(cert.config, pair.Leaf)
	cert.config.GetConfigForClient = cert.tickets.configForClient
	return cert, nil
}

// newTLSListener returns a tlsListener on top of ln.
func newTLSListener(ln net.Listener, cert *certificate, log zerolog.Logger) *tlsListener {
	tl := &tlsListener{Listener: ln, log: log, replaced: make(chan struct{}, 1), now: time.Now}
	tl.cert.Store(cert)
	return tl
}

// Accept accepts a connection. The TLS handshake happens later, so that a slow client does not
// block other connections.
func (tl *tlsListener) Accept() (net.Conn, error) {
	conn, err := tl.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tl.Adopt(conn), nil
}

// Adopt returns a connection of this port as Accept returns it.
func (tl *tlsListener) Adopt(conn net.Conn) net.Conn {
	c := tl.cert.Load()
	if c == nil {
		return conn
	}
	if l := tl.secrets.Load(); l != nil {
		c.tickets.update(l, secret.TicketDayOf(tl.now()))
	}
	return tls.Server(conn, c.config)
}

// shareTickets lets clients resume TLS sessions at every node with the same secrets.
func (tl *tlsListener) shareTickets(l secret.List) { tl.secrets.Store(&l) }

// SyscallConn gives access to the socket. The proxy uses it to accept all pending connections
// before it closes the port.
func (tl *tlsListener) SyscallConn() (syscall.RawConn, error) {
	if c, ok := tl.Listener.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, fmt.Errorf("process: socket of %T: %w", tl.Listener, errors.ErrUnsupported)
}

// SetDeadline sets the deadline of Accept.
func (tl *tlsListener) SetDeadline(t time.Time) error {
	if d, ok := tl.Listener.(interface{ SetDeadline(t time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return fmt.Errorf("process: %T has no deadlines", tl.Listener)
}

// replace sets the certificate for later connections.
func (tl *tlsListener) replace(c *certificate) {
	tl.cert.Store(c)
	select {
	case tl.replaced <- struct{}{}:
	default:
	}
}

// watchFiles reloads the certificate when its files change, until ctx ends.
func (tl *tlsListener) watchFiles(ctx context.Context) {
	for ctx.Err() == nil {
		watchCtx, stop := context.WithCancel(ctx)
		watchDone := make(chan struct{})
		go func() {
			defer close(watchDone)
			if c := tl.cert.Load(); c != nil {
				c.fileState.Watch(watchCtx, func() { tl.refresh(c.files) })
			}
		}()
		select {
		case <-ctx.Done():
		case <-tl.replaced:
		}
		stop()
		<-watchDone
	}
}

// refresh reloads the certificate. If the files are invalid, the current certificate stays in use.
func (tl *tlsListener) refresh(files [2]string) {
	current := tl.cert.Load()
	next, err := readCertificate(files[0], files[1])
	if current == nil || current.files != files {
		return // a reload has already replaced the files
	}
	if err != nil {
		tl.log.Error().Err(err).Time("until", current.tls.Leaf.NotAfter).Msg("certificate not replaced, keeping old one")
		return
	}
	isChanged := !bytes.Equal(next.tls.Leaf.Raw, current.tls.Leaf.Raw)
	if isChanged && tl.cert.CompareAndSwap(current, next) {
		tl.log.Info().Str("serial", next.tls.Leaf.SerialNumber.Text(16)).Time("until", next.tls.Leaf.NotAfter).Msg("certificate replaced")
	}
}
