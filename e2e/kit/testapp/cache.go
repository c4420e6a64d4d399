//go:build linux

package main

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// cache imitates an app without hooks. It loads the count of a key from a file at the first
// request, keeps the count in memory, and writes each change to the file. It never reads the file
// again. If the key moves to another app and back, the outdated count in memory overwrites what
// the other app has written.
type cache struct {
	dir string

	// mu protects counts and serialises access to the files.
	mu     sync.Mutex
	counts map[string]uint64
}

func newCache(dir string) *cache { return &cache{dir: dir, counts: make(map[string]uint64)} }

// increment adds 1 to the count of a key, saves it and returns it.
func (c *cache) increment(key string) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count, cached := c.counts[key]
	if !cached {
		var err error
		if count, err = c.load(key); err != nil {
			return 0, err
		}
	}
	count++
	if err := c.save(key, count); err != nil {
		return 0, err
	}
	c.counts[key] = count
	return count, nil
}

// dropAll clears the memory, as a restart of the app does.
func (c *cache) dropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.counts)
}

func (c *cache) load(key string) (uint64, error) {
	data, err := os.ReadFile(c.path(key)) //nolint:gosec // path escapes the key
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(data), 10, 64)
}

// save replaces the file of the key atomically. A concurrent reader gets the old or the new count.
func (c *cache) save(key string, count uint64) error {
	file, err := os.CreateTemp(c.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(strconv.FormatUint(count, 10))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), c.path(key)) //nolint:gosec // path escapes the key
	}
	return err
}

func (c *cache) path(key string) string {
	return filepath.Join(c.dir, "key-"+url.PathEscape(key))
}
