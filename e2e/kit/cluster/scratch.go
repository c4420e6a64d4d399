//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"shardway/e2e/kit/faultfs"
)

// scratchPrefix starts the names of scratch directories; the pid follows.
const scratchPrefix = "shardway-e2e-"

// Scratch makes a directory that is gone when its process is: in memory if
// there is /dev/shm, and swept by the next call of any process otherwise.
func Scratch() (string, error) {
	root := "/dev/shm"
	if _, err := os.Stat(root); err != nil {
		root = os.TempDir()
	}
	old, err := filepath.Glob(filepath.Join(root, scratchPrefix+"*"))
	if err != nil {
		return "", err
	}
	// A disk that the dead had mounted in theirs would be in the way.
	errs := []error{faultfs.Sweep()}
	for _, dir := range old {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), scratchPrefix), "-")
		if n, bad := strconv.Atoi(pid); bad == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	dir, err := os.MkdirTemp(root, fmt.Sprintf("%s%d-", scratchPrefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("cluster: scratch directory: %w", err)
	}
	return dir, errors.Join(errs...)
}
