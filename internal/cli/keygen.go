package cli

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"time"

	"shardway/internal/secret"
)

const (
	// tokenBytes is the number of random bytes in a token.
	tokenBytes = 32
	// otherUsersMode contains the permissions of the group and of other users.
	otherUsersMode = 0o077
)

type keygenCommand struct {
	Token bool `help:"Generate a token for the admin port instead."`
}

// Help describes the use of the output.
func (c *keygenCommand) Help() string {
	return `Writes a new secret to the output:

  shardway keygen > cluster.secret

Give every node of the cluster the same file with --secret-file, and let no other user
read it. Write a token into a file for --admin-read-token-file or
--admin-write-token-file: one token on each line, with an optional name before it.`
}

// Run writes a secret, or a token.
func (c *keygenCommand) Run(session *session) error {
	restrictPermissions(session.out)
	text := secret.List{secret.Generate(time.Now())}.Text()
	if c.Token {
		var token [tokenBytes]byte
		_, _ = rand.Read(token[:]) // never fails
		text = []byte(base64.RawURLEncoding.EncodeToString(token[:]) + "\n")
	}
	if _, err := session.out.Write(text); err != nil {
		return fmt.Errorf("write the secret: %w", err)
	}
	return nil
}

// restrictPermissions makes an output file private. The shell has just created the file, and nodes
// reject a secret that other users can read.
func restrictPermissions(out io.Writer) {
	file, ok := out.(*os.File)
	if !ok {
		return
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		// If this fails, the node reports the wrong mode.
		_ = file.Chmod(info.Mode().Perm() &^ otherUsersMode)
	}
}
