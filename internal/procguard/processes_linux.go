package procguard

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// processEntry is a process below the guard.
type processEntry struct {
	pid, parent, group, session int
}

// processTable contains the processes below the guard. /proc cannot be read atomically, so processes that start or
// end in the meantime may be missing.
type processTable struct {
	guard     int
	processes map[int]processEntry
	tokens    map[int]string // tokens that were read; an empty one means none
	// isComplete reports that no process below the guard is missing. It is false if a process ended
	// while the table was read, because its children may not have been listed, or were not yet known
	// as descendants of the guard.
	isComplete bool
}

// readProcessTable reads the descendants of the process guard from /proc. It leaves zombies out, which may have ended
// while it read.
func readProcessTable(guard int) *processTable {
	table := &processTable{guard: guard, processes: map[int]processEntry{}, tokens: map[int]string{}}
	all, running := map[int]processEntry{}, map[int]bool{}
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return table
	}
	table.isComplete = true
	for _, name := range names {
		content, err := os.ReadFile(name) //nolint:gosec // a name below /proc
		if err != nil {
			table.isComplete = false // the process has ended
			continue
		}
		entry, isRunning := parseStat(content)
		all[entry.pid], running[entry.pid] = entry, isRunning
	}
	for pid, entry := range all {
		isBelow, isKnown := isDescendant(entry, guard, all)
		if isBelow && running[pid] {
			table.processes[pid] = entry
		}
		hasEnded := isBelow && !running[pid]
		table.isComplete = table.isComplete && isKnown && !hasEnded
	}
	return table
}

// isDescendant reports whether a process is below the process guard. isKnown is false if an ancestor is missing
// from all because it ended after its child's entry was read.
func isDescendant(entry processEntry, guard int, all map[int]processEntry) (isBelow, isKnown bool) {
	for range len(all) + 1 {
		if entry.parent == guard {
			return true, true
		}
		if entry.parent == 0 {
			return false, true
		}
		parent, ok := all[entry.parent]
		if !ok {
			return false, false
		}
		entry = parent
	}
	return false, false // a cycle: IDs were reused while the entries were read
}

// parseStat parses the file stat of a process. ok is false for a zombie, whose entry is complete.
func parseStat(content []byte) (entry processEntry, ok bool) {
	pidText, _, _ := bytes.Cut(content, []byte(" "))
	end := bytes.LastIndexByte(content, ')') // the name in parentheses can contain anything
	if end < 0 {
		return entry, false
	}
	fields := strings.Fields(string(content[end+1:]))
	if len(fields) < 4 {
		return entry, false
	}
	var numbers [4]int
	for i, text := range []string{string(pidText), fields[1], fields[2], fields[3]} {
		number, err := strconv.Atoi(text)
		if err != nil {
			return entry, false
		}
		numbers[i] = number
	}
	isZombie := fields[0] == "Z" || fields[0] == "X"
	return processEntry{pid: numbers[0], parent: numbers[1], group: numbers[2], session: numbers[3]}, !isZombie
}

// members returns the processes of a child. children contains all children of the guard.
func (t *processTable) members(c *child, children map[uint64]*child) (pids []int) {
	for pid := range t.processes {
		owner, known := t.ownerOf(pid, children)
		if owner == c || !known {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// ownerOf returns the child to which a process belongs. known is false if it belongs to none.
func (t *processTable) ownerOf(pid int, children map[uint64]*child) (owner *child, known bool) {
	for {
		entry, ok := t.processes[pid]
		if !ok {
			return nil, false
		}
		token := t.tokenOf(pid)
		for _, c := range children {
			if entry.session == c.pid || entry.group == c.pid || token == c.token {
				return c, true
			}
		}
		if entry.parent == t.guard {
			return nil, false
		}
		pid = entry.parent
	}
}

// tokenOf returns the variable TokenVariable in the environment of a process, with its name. It returns "" if there is
// none, or if the environment cannot be read.
func (t *processTable) tokenOf(pid int) string {
	if token, ok := t.tokens[pid]; ok {
		return token
	}
	token := ""
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err == nil {
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.HasPrefix(variable, []byte(TokenVariable+"=")) {
				token = string(variable)
			}
		}
	}
	t.tokens[pid] = token
	return token
}

// lookPath finds a program in PATH of the child.
func lookPath(program string, spec *Spec) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for _, variable := range spec.Env {
		list, found := bytes.CutPrefix(variable, []byte("PATH="))
		if !found {
			continue
		}
		for dir := range strings.SplitSeq(string(list), ":") {
			path := filepath.Join(dir, program)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 && filepath.IsAbs(path) {
				return path, nil
			}
		}
	}
	return "", &os.PathError{Op: "look up in PATH", Path: program, Err: os.ErrNotExist}
}
