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

// ReadFile reads a secret file. It rejects a file that other users can read, because its
// content is no longer secret.
func ReadFile(path string) (List, error) {
	b, err := ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; copy the cluster's secret file there, or create a new one: shardway keygen > %s", err, path)
	}
	if err != nil {
		return nil, err
	}
	list, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// ReadTokens reads a token file that only its owner may read.
func ReadTokens(path string) ([]byte, error) {
	b, err := ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; create one: shardway keygen --token > %s", err, path)
	}
	return b, err
}

// ReadPrivate reads a small private file, such as a secret, a token or a private key. Only the
// owner of the file may have access to it. If root owns the file and this process runs as another
// user, the group may also read it.
func ReadPrivate(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	// Check the open file rather than its name, because the open file is read below.
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("secret: %s is not a regular file", path)
	}
	if accessibleByOthers(info.Mode(), grantedByRoot(info)) {
		return nil, fmt.Errorf("secret: %s can be read by others (%s): run chmod 600 %s, and replace its content if another user may have read it", path, info.Mode().Perm(), path)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("secret: read %s: %w", path, err)
	}
	if len(b) > maxFileSize {
		return nil, fmt.Errorf("secret: %s is larger than %d bytes", path, maxFileSize)
	}
	return b, nil
}

// accessibleByOthers reports whether users other than the intended ones have access to a file. Only
// the owner may have access. If root granted the file to this process, the group may also read it.
// Windows has no such permission bits, so the permissions of the directory apply there.
func accessibleByOthers(mode fs.FileMode, grantedByRoot bool) bool {
	bits := fs.FileMode(0o077)
	if grantedByRoot {
		bits = 0o037
	}
	return runtime.GOOS != "windows" && mode.Perm()&bits != 0
}

// WriteFile replaces a secret file atomically and durably: after a crash the file contains
// either the old list or the new one. If path is a symbolic link, it replaces the target of
// the link.
func WriteFile(path string, list List) (err error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		target, err = path, nil
	}
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	dir := filepath.Dir(target)
	temp, err := os.CreateTemp(dir, ".secret-*") // created with mode 0600
	if err != nil {
		return fmt.Errorf("secret: %s cannot be replaced: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("secret: %s cannot be replaced: %w", path, err), os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(list.Text())
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), target); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// syncDir makes a rename durable. An error is ignored: the content of the new file is
// already durable, and the old file is acceptable after a crash.
func syncDir(dir string) {
	dirFile, err := os.Open(dir) //nolint:gosec // of a file that the operator names
	if err != nil {
		return
	}
	_ = dirFile.Sync()
	_ = dirFile.Close()
}
