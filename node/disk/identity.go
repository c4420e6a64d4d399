package disk

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// format is the version of the files in the directory.
const format = 1

const (
	identityFile   = "identity.json"
	bootFile       = "boot.json"
	clusterFile    = "cluster.json"
	raftFile       = "raft.json"
	bootstrapFile  = "bootstrap.json"
	supersededFile = "superseded.json"
	knownFile      = "known.json"
	staleFile      = "stale.json"
	levelFile      = "level.json"

	maxNodeID = 64
)

// identity is the content of identity.json.
type identity struct {
	Format int    `json:"format"`
	Node   string `json:"node"`
	Disk   string `json:"disk"`
}

// boot is the content of boot.json.
type boot struct {
	Format int    `json:"format"`
	Boot   uint64 `json:"boot"`
}

// cluster is the content of cluster.json.
type cluster struct {
	Format int    `json:"format"`
	ID     string `json:"cluster"`
	Shards int    `json:"shards"`
}

// level is the content of level.json.
type level struct {
	Format int   `json:"format"`
	Level  uint8 `json:"level"`
}

// raftMade is the content of raft.json.
type raftMade struct {
	Format int `json:"format"`
}

// load reads a file of the directory into v. It reports false if the file does not exist.
func load(b backend, name string, v any) (bool, error) {
	data, err := b.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, unusable(home(b), err)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return false, fmt.Errorf("disk: %s is damaged, restore the data directory or start with an empty one: %w", where(b, name), err)
	}
	if head.Format != format {
		return false, fmt.Errorf("disk: %s has format %d, this program supports format %d: run the version that wrote it", where(b, name), head.Format, format)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("disk: %s is damaged, restore the data directory or start with an empty one: %w", where(b, name), err)
	}
	return true, nil
}

// save writes v durably.
func save(b backend, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("disk: %s: %w", name, err)
	}
	if err := b.write(name, append(data, '\n')); err != nil {
		return unusable(home(b), fmt.Errorf("write %s: %w", name, err))
	}
	return nil
}

// where returns the path of a file for an error message.
func where(b backend, name string) string {
	if p := b.path(name); p != "" {
		return p
	}
	return name
}

// identify reads the identity of the node, or creates one for a new directory.
func identify(b backend, want string) (identity, error) {
	var id identity
	found, err := load(b, identityFile, &id)
	if err != nil {
		return identity{}, err
	}
	if found {
		if err := CheckNodeID(id.Node); err != nil || id.Disk == "" {
			return identity{}, fmt.Errorf("disk: %s is damaged: node %q, disk %q", where(b, identityFile), id.Node, id.Disk)
		}
		if want != "" && want != id.Node {
			return identity{}, fmt.Errorf("disk: %s belongs to node %q, but --node is %q: omit --node, or name another directory with --data", where(b, identityFile), id.Node, want)
		}
		return id, nil
	}
	if f := b.foreign(); f != "" {
		return identity{}, fmt.Errorf("disk: the data directory has %s but no %s: restore it, or start with an empty directory", where(b, f), identityFile)
	}
	id = identity{Format: format, Node: want, Disk: random(10)}
	if want == "" {
		id.Node = "n-" + random(4)[:6]
	}
	if err := CheckNodeID(id.Node); err != nil {
		return identity{}, err
	}
	return id, save(b, identityFile, id)
}

// random returns n random bytes in lower-case base32.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand crashes the process instead
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// CheckNodeID returns an error unless id is a valid node id: 1 to 64 letters, digits, '-',
// '_' or '.'. A slash would be read as the start of the disk id.
func CheckNodeID(id string) error {
	if id == "" || len(id) > maxNodeID {
		return fmt.Errorf("disk: node id %q has %d bytes, want 1 to %d", id, len(id), maxNodeID)
	}
	for _, c := range []byte(id) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("disk: node id %q contains %q: use letters, digits, '-', '_' and '.'", id, c)
		}
	}
	return nil
}
