package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"
)

const (
	// selfSocket is the Unix socket in a node's data directory. Who may open it owns
	// the directory, or is root, and could as well stop the node: it takes no token.
	selfSocket = "self.sock"
	selfPath   = "/v1/drain"
	// selfMode lets nobody else connect.
	selfMode = 0o600
)

// Self is a node as it may be asked at its own socket.
type Self interface {
	// DrainSelf has this process own nothing for as long as it runs, and tells how far that
	// is. It may be asked again.
	DrainSelf() DrainState
	// SelfState tells how far that is.
	SelfState() DrainState
}

// socketOf returns the socket of a data directory. Its path must fit into a
// sockaddr_un: 107 bytes on Linux.
func socketOf(data string) (string, error) {
	path := filepath.Join(data, selfSocket)
	most, more := len(syscall.RawSockaddrUnix{}.Path)-1, len(unborn(path))-len(data)
	if len(unborn(path)) > most {
		return "", fmt.Errorf("the path of the data directory %q has %d bytes, and a socket in it leaves room for %d: give it a shorter one, such as a symbolic link to it", data, len(data), most-more)
	}
	return path, nil
}

// unborn is where a socket is made that nobody can connect to yet.
func unborn(path string) string { return filepath.Join(path+".tmp", "s") }

// ListenSelf opens the socket of a data directory, which the caller must have locked:
// what a process left there that was killed is replaced. It is never open to others, not
// for a moment either, and goes when it is closed.
func ListenSelf(ctx context.Context, data string) (net.Listener, error) {
	path, err := socketOf(data)
	if err != nil {
		return nil, err
	}
	if st, wrong := os.Lstat(path); wrong == nil && st.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is in the way, and no socket: remove it", path)
	}
	made := unborn(path)
	if err = errors.Join(os.RemoveAll(filepath.Dir(made)), os.Mkdir(filepath.Dir(made), 0o700)); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(filepath.Dir(made)) }()
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unix", made)
	if err != nil {
		return nil, err
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	if err = errors.Join(os.Chmod(made, selfMode), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &selfListener{Listener: ln, path: path}, nil
}

type selfListener struct {
	net.Listener
	path string
}

func (l *selfListener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.Listener.Close())
}

// ServeSelf answers for a node at its own socket until ctx ends. It owns ln.
func ServeSelf(ctx context.Context, ln net.Listener, s Self, log zerolog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle(selfPath, handle(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := query(r); err != nil {
			return err
		}
		if r.Method == http.MethodPost {
			return writeJSON(w, s.DrainSelf())
		}
		return writeJSON(w, s.SelfState())
	}, http.MethodGet, http.MethodPost))
	mux.Handle("/", handle(notFound(selfPath)))
	return serve(ctx, ln, bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		mux.ServeHTTP(w, r)
	})), log)
}

// SelfClient asks a node at its own socket, in its data directory.
type SelfClient struct{ c *Client }

// NewSelfClient returns a SelfClient for the node of a data directory.
func NewSelfClient(data string) (*SelfClient, error) {
	path, err := socketOf(data)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return &SelfClient{&Client{base: "http://self", addr: path, socket: true, http: &http.Client{Transport: &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
		MaxResponseHeaderBytes: maxAnswerHeader,
	}}}}, nil
}

// Close closes idle connections.
func (s *SelfClient) Close() { s.c.Close() }

// Drain has the process own nothing for as long as it runs.
func (s *SelfClient) Drain(ctx context.Context) (DrainState, error) {
	return ask[DrainState](ctx, s.c, call{method: http.MethodPost, path: selfPath})
}

// State tells how far that is.
func (s *SelfClient) State(ctx context.Context) (DrainState, error) {
	return get[DrainState](ctx, s.c, selfPath, nil)
}

// explainSelf is explain for a node's own socket.
func (c *Client) explainSelf(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no node runs on the data directory %q: name the one of the node with --data DIR (%w)", filepath.Dir(c.addr), err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("only the user that the node runs as may use %s: become that user (%w)", c.addr, fs.ErrPermission)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer at %s in time (%w)", c.addr, context.DeadlineExceeded)
	}
	return fmt.Errorf("no answer at %s: has the node just ended? (%w)", c.addr, err)
}
