package childproc

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"shardway/proxy/procpool"
	"shardway/shardmap"
)

// maxReadablePrefix is the maximum number of characters of a key in the name of its directory.
const maxReadablePrefix = 32

// directoryName returns the name of the directory of a target. All nodes compute the same name. Different targets
// have different names, even on case-insensitive file systems, because a key's name contains 128 bits of its hash.
func directoryName(target procpool.Target) string {
	if target.Key == "" {
		return "shard-" + strconv.Itoa(int(target.Shard))
	}
	return KeyDirectory([]byte(target.Key))
}

// KeyDirectory returns the name of the directory of a key below --exec-dir: the readable characters at the
// beginning of the key, in lowercase, and its hash.
func KeyDirectory(key []byte) string {
	prefix := make([]byte, 0, maxReadablePrefix)
	for _, c := range key {
		isLetter, isDigit := c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9'
		if isReadable := isLetter || isDigit || c == '_'; !isReadable || len(prefix) == maxReadablePrefix {
			break
		}
		if isLetter {
			c |= 0x20
		}
		prefix = append(prefix, c)
	}
	hash := sha256.Sum256(key)
	encoded := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:16]))
	return "key-" + string(prefix) + "-" + encoded
}

// makeDirectory creates the directory of a target below base, if it does not exist. It refuses symbolic links,
// which another key's process could have created.
func makeDirectory(base string, target procpool.Target) (string, error) {
	path := filepath.Join(base, directoryName(target))
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", path)
	}
	return path, nil
}

// environment returns environ without the node's own variables: its settings, which may name secret files, and the
// sockets and credentials from the service manager.
func environment(environ []string) []string {
	kept := make([]string, 0, len(environ))
	for _, inherited := range environ {
		name, _, _ := strings.Cut(inherited, "=")
		upper := strings.ToUpper(name)
		isOfNode := strings.HasPrefix(upper, "SHARDWAY") || strings.HasPrefix(upper, "LISTEN_") || strings.HasPrefix(upper, "WATCHDOG_")
		switch upper {
		case "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY", "GOMEMLIMIT", "GOMAXPROCS", "GOGC", "GODEBUG", "JOURNAL_STREAM":
			isOfNode = true
		}
		if !isOfNode {
			kept = append(kept, inherited)
		}
	}
	return kept
}

// variable returns a variable of an environment.
func variable(name, value string) string { return name + "=" + value }

// childVariables returns the variables that describe the process of a target.
func childVariables(target procpool.Target, epoch shardmap.Epoch, node, addr, port, dir string) []string {
	variables := []string{
		variable("SHARDWAY_NODE", node), variable("SHARDWAY_SHARD", strconv.Itoa(int(target.Shard))), variable("SHARDWAY_EPOCH", strconv.FormatUint(uint64(epoch), 10)),
		variable("SHARDWAY_ADDR", addr), variable("SHARDWAY_PORT", port), variable("SHARDWAY_DIR", dir),
	}
	if target.Key != "" {
		variables = append(variables, variable("SHARDWAY_KEY", target.Key))
	}
	return variables
}
