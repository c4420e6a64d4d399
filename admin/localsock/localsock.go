package localsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// DrainPath is the path of the only resource: the drain of the process.
	DrainPath = "/v1/drain"
	// socketName is the file name of the socket in the data directory.
	socketName = "self.sock"
	// socketMode prevents other users from connecting.
	socketMode = 0o600
)

// Path returns the path of the socket in a data directory. It must fit into a
// sockaddr_un: 107 bytes on Linux.
func Path(dataDir string) (string, error) {
	path := filepath.Join(dataDir, socketName)
	maxLength, suffixLength := len(syscall.RawSockaddrUnix{}.Path)-1, len(tempPath(path))-len(dataDir)
	if len(tempPath(path)) > maxLength {
		return "", fmt.Errorf("the path of the data directory %q has %d bytes, and a socket in it leaves room for %d: give it a shorter one, such as a symbolic link to it", dataDir, len(dataDir), maxLength-suffixLength)
	}
	return path, nil
}

// tempPath returns the path at which the socket is created. Its directory admits no other
// user.
func tempPath(path string) string { return filepath.Join(path+".tmp", "s") }

// Listen creates the socket in a data directory, which the caller must have locked. It
// replaces the socket of a killed process. Other users can never connect, not even while the
// socket is being created. Close removes the socket.
func Listen(ctx context.Context, dataDir string) (net.Listener, error) {
	path, err := Path(dataDir)
	if err != nil {
		return nil, err
	}
	if info, statErr := os.Lstat(path); statErr == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s exists and is not a socket: remove it", path)
	}
	temp := tempPath(path)
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
	if err = errors.Join(os.Chmod(temp, socketMode), os.Rename(temp, path)); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &localListener{Listener: ln, path: path}, nil
}

// localListener is the listener of the socket at path.
type localListener struct {
	net.Listener
	path string
}

// Close removes the socket and closes the listener.
func (l *localListener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.Listener.Close())
}
