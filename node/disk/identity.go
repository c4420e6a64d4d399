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

// raftMarker is the content of raft.json.
type raftMarker struct {
	Format int `json:"format"`
}

// loadFile decodes a file of the directory into content. It returns false if the file does not
// exist.
func loadFile(dir backend, name string, content any) (bool, error) {
	data, err := dir.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, unusableError(displayDir(dir), err)
	}
	var header struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &header); err != nil {
		return false, fmt.Errorf("disk: %s is damaged, restore the data directory or start with an empty one: %w", displayPath(dir, name), err)
	}
	if header.Format != format {
		return false, fmt.Errorf("disk: %s has format %d, this program supports format %d: run the version that wrote it", displayPath(dir, name), header.Format, format)
	}
	if err := json.Unmarshal(data, content); err != nil {
		return false, fmt.Errorf("disk: %s is damaged, restore the data directory or start with an empty one: %w", displayPath(dir, name), err)
	}
	return true, nil
}

// saveFile encodes content and durably writes it to a file.
func saveFile(dir backend, name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("disk: %s: %w", name, err)
	}
	if err := dir.write(name, append(data, '\n')); err != nil {
		return unusableError(displayDir(dir), fmt.Errorf("write %s: %w", name, err))
	}
	return nil
}

// displayPath returns the path of a file for an error message, or its name if the directory is in
// memory.
func displayPath(dir backend, name string) string {
	if path := dir.path(name); path != "" {
		return path
	}
	return name
}

// loadIdentity reads the identity of the node, or creates one for a new directory.
func loadIdentity(dir backend, wantNode string) (identity, error) {
	var id identity
	found, err := loadFile(dir, identityFile, &id)
	if err != nil {
		return identity{}, err
	}
	if found {
		if err := CheckNodeID(id.Node); err != nil || id.Disk == "" {
			return identity{}, fmt.Errorf("disk: %s is damaged: node %q, disk %q", displayPath(dir, identityFile), id.Node, id.Disk)
		}
		if wantNode != "" && wantNode != id.Node {
			return identity{}, fmt.Errorf("disk: %s belongs to node %q, but --node is %q: omit --node, or name another directory with --data", displayPath(dir, identityFile), id.Node, wantNode)
		}
		return id, nil
	}
	if usedFile := dir.usedFile(); usedFile != "" {
		return identity{}, fmt.Errorf("disk: the data directory has %s but no %s: restore it, or start with an empty directory", displayPath(dir, usedFile), identityFile)
	}
	id = identity{Format: format, Node: wantNode, Disk: randomID(10)}
	if wantNode == "" {
		id.Node = "n-" + randomID(4)[:6]
	}
	if err := CheckNodeID(id.Node); err != nil {
		return identity{}, err
	}
	return id, saveFile(dir, identityFile, id)
}

// randomID returns byteCount random bytes in lower-case base32.
func randomID(byteCount int) string {
	id := make([]byte, byteCount)
	_, _ = rand.Read(id) // never fails: crypto/rand crashes the process instead
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(id))
}

// CheckNodeID returns an error unless id is a valid node id: 1 to 64 letters, digits, '-',
// '_' or '.'. A slash would be read as the start of the disk id.
func CheckNodeID(id string) error {
	if id == "" || len(id) > maxNodeID {
		return fmt.Errorf("disk: node id %q has %d bytes, want 1 to %d", id, len(id), maxNodeID)
	}
	for _, char := range []byte(id) {
		isAlphanumeric := char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z' || char >= '0' && char <= '9'
		if !isAlphanumeric && char != '-' && char != '_' && char != '.' {
			return fmt.Errorf("disk: node id %q contains %q: use letters, digits, '-', '_' and '.'", id, char)
		}
	}
	return nil
}
