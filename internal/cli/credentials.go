package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	"shardway/admin/auth"
	"shardway/admin/client"
	"shardway/internal/secret"
)

// credentialFlags are the flags for an admin port that requires credentials.
type credentialFlags struct {
	TokenFile string `help:"File whose first token is sent (else SHARDWAY_TOKEN_FILE, else the token file of the node)." placeholder:"FILE"`
	TLSCA     string `help:"CA certificates of the node's certificate, PEM (else those of the system)."                                                              name:"tls-ca"      placeholder:"FILE"`
	TLSCert   string `help:"Client certificate, PEM."                                                                                                           name:"tls-cert"    placeholder:"FILE"`
	TLSKey    string `help:"Private key of the client certificate, PEM."                                                                                                              name:"tls-key"     placeholder:"FILE"`
}

// load reads the files of the flags, or of the corresponding environment variables.
func (c *credentialFlags) load(session *session) (client.Credentials, error) {
	var credentials client.Credentials
	file, source := c.TokenFile, "--token-file"
	for _, name := range []string{"SHARDWAY_TOKEN_FILE", "SHARDWAY_ADMIN_WRITE_TOKEN_FILE", "SHARDWAY_ADMIN_READ_TOKEN_FILE"} {
		if file == "" {
			file, source = variable(session.environ, name), name
		}
	}
	if file != "" {
		var err error
		if credentials.Token, err = readFirstToken(file); err != nil {
			return credentials, fmt.Errorf("%s: %w", source, err)
		}
	}
	if c.TLSCA == "" && c.TLSCert == "" && c.TLSKey == "" {
		return credentials, nil
	}
	credentials.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLSCA != "" {
		cas, err := secret.ReadAuthorities(c.TLSCA)
		if err != nil {
			return credentials, fmt.Errorf("--tls-ca: %w", err)
		}
		credentials.TLS.RootCAs = x509.NewCertPool()
		for _, ca := range cas {
			credentials.TLS.RootCAs.AddCert(ca)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return credentials, usageError("--tls-cert and --tls-key must be given together")
	}
	if c.TLSCert != "" {
		cert, err := secret.KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return credentials, fmt.Errorf("--tls-cert: %w", err)
		}
		credentials.TLS.Certificates = []tls.Certificate{cert}
	}
	return credentials, nil
}

// readFirstToken validates a token file as a node does, and returns its first token.
func readFirstToken(path string) (string, error) {
	data, err := secret.ReadPrivate(path)
	if err != nil {
		return "", err
	}
	if _, err := auth.ParseTokens(data); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	for line := range bytes.Lines(data) {
		if fields := strings.Fields(string(line)); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			return fields[len(fields)-1], nil
		}
	}
	return "", fmt.Errorf("%s contains no token", path) // cannot happen: ParseTokens rejects such a file
}
