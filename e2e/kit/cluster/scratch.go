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

// scratchPrefix is the prefix of the names of scratch directories. The process ID
// follows.
const scratchPrefix = "shardway-e2e-"

// Scratch creates a temporary directory, in memory if /dev/shm exists. It removes the
// directories of processes that have ended.
func Scratch() (string, error) {
	root := "/dev/shm"
	if _, err := os.Stat(root); err != nil {
		root = os.TempDir()
	}
	old, err := filepath.Glob(filepath.Join(root, scratchPrefix+"*"))
	if err != nil {
		return "", err
	}
	// A mounted disk in such a directory would prevent its removal.
	errs := []error{faultfs.UnmountOrphans()}
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
