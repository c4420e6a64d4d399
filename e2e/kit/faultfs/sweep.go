//go:build linux

package faultfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	// fsType is the file system type of the mounts.
	fsType = "fuse.faultfs"
	// sourcePrefix is the prefix of the sources of the mounts. The ID of the process follows that
	// mounted the disk.
	sourcePrefix = "shardway-faultfs-"
)

func mountSource(pid int) string { return sourcePrefix + strconv.Itoa(pid) }

// UnmountOrphans unmounts the disks that processes mounted which have ended.
func UnmountOrphans() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("faultfs: %w", err)
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		dir, pid := parseMount(line)
		if pid == 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		// Another process may sweep at the same time.
		if err := unmount(dir); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// parseMount returns the mount point of a mount of this package and the ID of the process
// that created it, from a line of mountinfo (proc(5)). The process ID is 0 for other
// mounts.
func parseMount(line string) (dir string, pid int) {
	mount, source, ok := strings.Cut(line, " - ")
	mountFields, sourceFields := strings.Fields(mount), strings.Fields(source)
	if !ok || len(mountFields) < 5 || len(sourceFields) < 2 || sourceFields[0] != fsType {
		return "", 0
	}
	owner, ok := strings.CutPrefix(sourceFields[1], sourcePrefix)
	if !ok {
		return "", 0
	}
	pid, err := strconv.Atoi(owner)
	if err != nil || pid <= 0 {
		return "", 0
	}
	return unescape.Replace(mountFields[4]), pid
}

// unescape reverses the escape sequences of mountinfo in a path.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
