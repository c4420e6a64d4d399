package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ReadFile reads a file of secrets. One that others may read is refused: it is
// no secret any more.
func ReadFile(path string) (List, error) {
	b, err := ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; copy the cluster's there, or make that of a new one: shardway keygen > %s", err, path)
	}
	if err != nil {
		return nil, err
	}
	l, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// ReadTokens reads a file of tokens, which nobody but its owner may read.
func ReadTokens(path string) ([]byte, error) {
	b, err := ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; make one: shardway keygen --token > %s", err, path)
	}
	return b, err
}

// ReadPrivate reads a small file that nobody but its owner may read, such as a
// secret, a token or a private key; one that root owns, who gives it to this process
// so, its group too.
func ReadPrivate(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	// The open file is judged, not its name: it is what gets read.
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("secret: %s is not a regular file", path)
	}
	if accessibleByOthers(st.Mode(), grantedByRoot(st)) {
		return nil, fmt.Errorf("secret: %s can be read by others (%s): do chmod 600 %s, and replace what it holds if somebody may have read it", path, st.Mode().Perm(), path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("secret: read %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("secret: %s is larger than %d bytes", path, maxFile)
	}
	return b, nil
}

// shared reports whether others than those for whom a file is have rights on it: anybody
// but its owner or, if it was given to this process, who may do more than read it in its
// group. Windows has no such bits; there the directory's rights count.
func accessibleByOthers(m fs.FileMode, grantedByRoot bool) bool {
	bits := fs.FileMode(0o077)
	if grantedByRoot {
		bits = 0o037
	}
	return runtime.GOOS != "windows" && m.Perm()&bits != 0
}

// WriteFile replaces a file of secrets whole and durably: after a crash the old
// list is there or the new one. A link stays one.
func WriteFile(path string, l List) (err error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = path, nil
	}
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	dir := filepath.Dir(real)
	f, err := os.CreateTemp(dir, ".secret-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("secret: %s cannot be replaced: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("secret: %s cannot be replaced: %w", path, err), os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(l.Text())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), real); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// syncDir makes a rename durable. Where a directory cannot be synced, the file
// itself has been, and the old one is as good after a crash.
func syncDir(dir string) {
	d, err := os.Open(dir) //nolint:gosec // of a file that the operator names
	if err != nil {
		return
	}
	_ = d.Sync()
	_ = d.Close()
}
