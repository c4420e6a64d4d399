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

// networkName matches the names of namespaces and devices that New creates. The submatch is the
// process ID in base 36.
var networkName = regexp.MustCompile(`^sw([0-9a-z]+)-[0-9]+[bcdkn][0-9]*$`)

// removeOrphans removes the namespaces, files and devices that New created for processes that have
// ended.
func removeOrphans() error {
	var errs []error
	namespaces, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range namespaces {
		if isOrphaned(entry.Name()) {
			errs = append(errs, removeNamespace(entry.Name()))
		}
	}
	configDirs, err := os.ReadDir(netnsConfigDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range configDirs {
		if isOrphaned(entry.Name()) {
			errs = append(errs, removeNameserver(entry.Name()))
		}
	}
	for _, link := range links() {
		if isOrphaned(link) {
			errs = append(errs, removeLink(link))
		}
	}
	return errors.Join(errs...)
}

// removeNamespace removes a namespace. It returns no error if the namespace does not exist any more,
// because another process may remove orphans at the same time.
func removeNamespace(name string) error {
	err := ip("netns", "del", name)
	if _, gone := os.Stat("/run/netns/" + name); errors.Is(gone, os.ErrNotExist) {
		return nil
	}
	return err
}

// isOrphaned reports whether New created a namespace or device with this name for a process that has
// ended.
func isOrphaned(name string) bool {
	match := networkName.FindStringSubmatch(name)
	if match == nil {
		return false
	}
	pid, err := strconv.ParseInt(match[1], 36, 32)
	return err == nil && errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH)
}

// links returns the names of the network devices of this namespace.
func links() []string {
	listing, err := output("-o", "link", "show")
	if err != nil {
		return nil
	}
	var names []string
	for line := range strings.Lines(listing) {
		if fields := strings.Fields(line); len(fields) > 1 {
			name, _, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@")
			names = append(names, name)
		}
	}
	return names
}
