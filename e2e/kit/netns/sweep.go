//go:build linux

package netns

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// ours matches the names of New, with the process ID in hexadecimal.
var ours = regexp.MustCompile(`^sw([0-9a-z]+)-[0-9]+[bcdkn][0-9]*$`)

// sweep removes the networks of processes that have ended.
func sweep() error {
	var errs []error
	spaces, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range spaces {
		if orphaned(e.Name()) {
			errs = append(errs, removeSpace(e.Name()))
		}
	}
	written, err := os.ReadDir(etc)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range written {
		if orphaned(e.Name()) {
			errs = append(errs, forget(e.Name()))
		}
	}
	for _, link := range links() {
		if orphaned(link) {
			errs = append(errs, removeLink(link))
		}
	}
	return errors.Join(errs...)
}

// removeSpace ignores that the namespace is gone, since two tests may sweep at once.
func removeSpace(name string) error {
	err := ip("netns", "del", name)
	if _, gone := os.Stat("/run/netns/" + name); errors.Is(gone, os.ErrNotExist) {
		return nil
	}
	return err
}

// orphaned reports whether name was created by New and its process has ended.
func orphaned(name string) bool {
	m := ours.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	pid, err := strconv.ParseInt(m[1], 36, 32)
	return err == nil && errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH)
}

// links returns the names of the network devices of this namespace.
func links() []string {
	out, err := output("-o", "link", "show")
	if err != nil {
		return nil
	}
	var names []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 {
			name, _, _ := strings.Cut(strings.TrimSuffix(f[1], ":"), "@")
			names = append(names, name)
		}
	}
	return names
}
