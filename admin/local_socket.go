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
	localSocketName = "self.sock"
	localDrainPath  = "/v1/drain"
	// selfMode lets nobody else connect.
	localSocketMode = 0o600
)

// Self is a node as it may be asked at its own socket.
type LocalNode interface {
	// DrainSelf has this process own nothing for as long as it runs, and tells how far that
	// is. It may be asked again.
	DrainSelf() DrainState
	// SelfState tells how far that is.
	SelfState() DrainState
}

// socketOf returns the socket of a data directory. Its path must fit into a
// sockaddr_un: 107 bytes on Linux.
func localSocketPath(data string) (string, error) {
	path := filepath.Join(data, localSocketName)
	most, more := len(syscall.RawSockaddrUnix{}.Path)-1, len(tempSocketPath(path))-len(data)
	if len(tempSocketPath(path)) > most {
		return "", fmt.Errorf("the path of the data directory %q has %d bytes, and a socket in it leaves room for %d: give it a shorter one, such as a symbolic link to it", data, len(data), most-more)
	}
	return path, nil
}

// unborn is where a socket is made that nobody can connect to yet.
func tempSocketPath(path string) string { return filepath.Join(path+".tmp", "s") }

// ListenSelf opens the socket of a data directory, which the caller must have locked:
// what a process left there that was killed is replaced. It is never open to others, not
// for a moment either, and goes when it is closed.
func ListenLocal(ctx context.Context, data string) (net.Listener, error) {
	path, err := localSocketPath(data)
	if err != nil {
		return nil, err
	}
	if st, wrong := os.Lstat(path); wrong == nil && st.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is in the way, and no socket: remove it", path)
	}
	made := tempSocketPath(path)
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
	if err = errors.Join(os.Chmod(made, localSocketMode), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &localListener{Listener: ln, path: path}, nil
}

type localListener struct {
	net.Listener
	path string
}

func (l *localListener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.Listener.Close())
}

// ServeSelf answers for a node at its own socket until ctx ends. It owns ln.
func ServeLocal(ctx context.Context, ln net.Listener, s LocalNode, log zerolog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle(localDrainPath, handle(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := query(r); err != nil {
			return err
		}
		if r.Method == http.MethodPost {
			return writeJSON(w, s.DrainSelf())
		}
		return writeJSON(w, s.SelfState())
	}, http.MethodGet, http.MethodPost))
	mux.Handle("/", handle(notFound(localDrainPath)))
	return serve(ctx, ln, limitBody(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		mux.ServeHTTP(w, r)
	})), log)
}

// SelfClient asks a node at its own socket, in its data directory.
type LocalClient struct{ c *Client }

// NewSelfClient returns a SelfClient for the node of a data directory.
func NewLocalClient(data string) (*LocalClient, error) {
	path, err := localSocketPath(data)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return &LocalClient{&Client{base: "http://self", addr: path, isLocalSocket: true, http: &http.Client{Transport: &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
		MaxResponseHeaderBytes: maxResponseHeader,
	}}}}, nil
}

// Close closes idle connections.
func (c *LocalClient) Close() { c.c.Close() }

// Drain has the process own nothing for as long as it runs.
func (c *LocalClient) Drain(ctx context.Context) (DrainState, error) {
	return fetchJSON[DrainState](ctx, c.c, call{method: http.MethodPost, path: localDrainPath})
}

// State tells how far that is.
func (c *LocalClient) State(ctx context.Context) (DrainState, error) {
	return getJSON[DrainState](ctx, c.c, localDrainPath, nil)
}

// explainSelf is explain for a node's own socket.
func (c *Client) describeLocalError(err error) error {
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
