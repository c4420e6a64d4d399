// Package bundle builds the archive of a bug report, and removes secrets from its files.
//
// The command debug collects the files. Before it calls Pack, it adds the secrets of the machine to a
// Redactor, and redacts the content of each file.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"
	"time"
)

// File is a file in a bundle.
type File struct {
	Name    string
	Content []byte
}

// Pack returns a compressed archive of the files. now is the time of their last change.
func Pack(files []File, now time.Time) ([]byte, error) {
	var buf bytes.Buffer
	gzipWriter := gzip.NewWriter(&buf)
	tarWriter := tar.NewWriter(gzipWriter)
	for _, file := range files {
		if err := tarWriter.WriteHeader(&tar.Header{Name: "shardway-debug/" + file.Name, Mode: 0o600, Size: int64(len(file.Content)), ModTime: now}); err != nil {
			return nil, err
		}
		if _, err := tarWriter.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := tarWriter.Close(); err != nil {
		return nil, err
	}
	if err := gzipWriter.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// ReadTail returns the last complete lines of a file, up to maxBytes bytes.
func ReadTail(name string, maxBytes int64) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	offset := max(info.Size()-maxBytes, 0)
	data, err := io.ReadAll(io.NewSectionReader(file, offset, maxBytes))
	if _, rest, found := bytes.Cut(data, []byte("\n")); offset > 0 && found {
		data = rest
	}
	return data, err
}

// SafeFileName replaces the characters of a node ID that are not safe in a file name.
func SafeFileName(id string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	return strings.Map(func(char rune) rune {
		if strings.ContainsRune(safe, char) {
			return char
		}
		return '-'
	}, id)
}
