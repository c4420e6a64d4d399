package disk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/node/disk"
)

func TestCheckWritableNamesThePathAndTheRemedy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "new"), filepath.Join(dir, "new", "below")} {
		if err := disk.CheckWritable(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the check left something behind: %v, %v", left, err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		err := disk.CheckWritable(path)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "--data") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestCheckWritableDoesNotDisturbRunningNode(t *testing.T) {
	dir := t.TempDir()
	d, err := disk.Open(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := disk.CheckWritable(dir); err != nil {
		t.Error(err)
	}
}
