package procguard

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ListenerOwner returns whether the child with the main process pid has the listener at a port of 127.0.0.1.
func ListenerOwner(pid int, port uint16) ListenerOwnership {
	inodes, users := listeners(port)
	if len(inodes) == 0 {
		return ListenerUnknown
	}
	canReadAll := true
	for _, member := range sessionOf(pid) {
		has, err := hasSocket(member, inodes)
		if has {
			return ListenerOwn
		}
		canReadAll = canReadAll && err == nil
	}
	if canReadAll {
		return ListenerForeign
	}
	// The child runs as another user, so its files cannot be read.
	var stat syscall.Stat_t
	if syscall.Stat("/proc/"+strconv.Itoa(pid), &stat) != nil {
		return ListenerUnknown
	}
	for _, user := range users {
		if user == strconv.FormatUint(uint64(stat.Uid), 10) {
			return ListenerUnknown
		}
	}
	return ListenerForeign
}

// listeners returns the inodes and the users of the TCP sockets that listen at a port, at any address.
func listeners(port uint16) (inodes map[string]bool, users []string) {
	inodes = map[string]bool{}
	suffix := fmt.Sprintf(":%04X", port)
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(name) //nolint:gosec // a name below /proc
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			const listening = "0A"
			fields := strings.Fields(line)
			if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[3] == listening {
				inodes["socket:["+fields[9]+"]"] = true
				users = append(users, fields[7])
			}
		}
	}
	return inodes, users
}

// sessionOf returns the processes in the session of a child, and their descendants.
func sessionOf(pid int) (members []int) {
	all := map[int]processEntry{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, name := range names {
		if content, err := os.ReadFile(name); err == nil { //nolint:gosec // a name below /proc
			if entry, ok := parseStat(content); ok {
				all[entry.pid] = entry
			}
		}
	}
	for member, entry := range all {
		for depth := 0; depth < len(all); depth++ {
			if entry.session == pid || entry.group == pid || entry.pid == pid {
				members = append(members, member)
				break
			}
			next, ok := all[entry.parent]
			if !ok {
				break
			}
			entry = next
		}
	}
	return members
}

// hasSocket reports whether a process has one of the sockets open.
func hasSocket(pid int, inodes map[string]bool) (has bool, err error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		if link, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil && inodes[link] {
			return true, nil
		}
	}
	return false, nil
}
