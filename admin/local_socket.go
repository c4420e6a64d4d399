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

	"shardway/admin/api"
)

const (
	// localSocketName is the Unix socket in the data directory of a node. It needs no token: only the
	// owner of the directory and root can open it, and both could stop the node anyway.
	localSocketName = "self.sock"
	localDrainPath  = "/v1/drain"
	// localSocketMode prevents other users from connecting.
	localSocketMode = 0o600
)

// localSocketPath returns the path of the socket in a data directory. It must fit into a
// sockaddr_un: 107 bytes on Linux.
func localSocketPath(data string) (string, error) {
	path := filepath.Join(data, localSocketName)
	most, more := len(syscall.RawSockaddrUnix{}.Path)-1, len(tempSocketPath(path))-len(data)
	if len(tempSocketPath(path)) > most {
		return "", fmt.Errorf("the path of the data directory %q has %d bytes, and a socket in it leaves room for %d: give it a shorter one, such as a symbolic link to it", data, len(data), most-more)
	}
	return path, nil
}

// tempSocketPath returns the path at which the socket is created. Its directory admits no other
// user.
func tempSocketPath(path string) string { return filepath.Join(path+".tmp", "s") }

// ListenLocal creates the socket in a data directory, which the caller must have locked. It
// replaces the socket of a killed process. Other users can never connect, not even while the
// socket is being created. Close removes the socket.
func ListenLocal(ctx context.Context, data string) (net.Listener, error) {
	path, err := localSocketPath(data)
	if err != nil {
		return nil, err
	}
	if st, wrong := os.Lstat(path); wrong == nil && st.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s exists and is not a socket: remove it", path)
	}
	temp := tempSocketPath(path)
	if err = errors.Join(os.RemoveAll(filepath.Dir(temp)), os.Mkdir(filepath.Dir(temp), 0o700)); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(filepath.Dir(temp)) }()
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unix", temp)
	if err != nil {
		return nil, err
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	if err = errors.Join(os.Chmod(temp, localSocketMode), os.Rename(temp, path)); err != nil {
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

// ServeLocal serves the local socket of a node until ctx ends. It closes ln.
func ServeLocal(ctx context.Context, ln net.Listener, s api.LocalNode, log zerolog.Logger) error {
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

// LocalClient sends requests to the local socket of a node.
type LocalClient struct{ c *Client }

// NewLocalClient returns a LocalClient for the node with this data directory.
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

// Drain starts a drain that lasts as long as the process runs, and returns its progress.
func (c *LocalClient) Drain(ctx context.Context) (api.DrainState, error) {
	return fetchJSON[api.DrainState](ctx, c.c, call{method: http.MethodPost, path: localDrainPath})
}

// State returns the progress of the drain.
func (c *LocalClient) State(ctx context.Context) (api.DrainState, error) {
	return getJSON[api.DrainState](ctx, c.c, localDrainPath, nil)
}

// describeLocalError is describeError for the local socket.
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
