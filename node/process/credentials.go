package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/auth"
	"shardway/config"
	"shardway/diagnosis"
	"shardway/internal/address"
	"shardway/internal/secret"
	"shardway/node"
	"shardway/node/disk"
)

// credentials contains what protects the ports of a node: the secret, the certificates and the
// admin tokens, loaded from the configured files. It reloads files that change. An invalid file
// has no effect.
type credentials struct {
	config *config.Config
	log    zerolog.Logger
	nodeID string // empty before applyTo

	secret      *secret.Store      // nil means no secret
	nodeTLS     *secret.TLSWrapper // nil means plain TCP between nodes
	nodePKI     *secret.PKI        // nil means certificates derived from the secret
	adminAccess auth.Access
	adminCert   atomic.Pointer[tls.Certificate]  // of the admin port; nil means plain HTTP
	nodeCert    atomic.Pointer[x509.Certificate] // for connections between nodes, of nodePKI
	// fileStates has the states of the files before they were read.
	fileStates struct{ pki, access, cert secret.FileState }
}

// statFiles returns the state of the configured files. Empty paths are ignored.
func statFiles(paths ...string) secret.FileState {
	return secret.StatFiles(slices.DeleteFunc(paths, func(p string) bool { return p == "" })...)
}

// loadCredentials loads the files. It finds all mistakes before New opens anything. The error is
// created by errors.Join.
func loadCredentials(conf *config.Config, log zerolog.Logger) (*credentials, error) {
	loaded := &credentials{config: conf, log: log}
	loaded.fileStates.pki, loaded.fileStates.cert = statFiles(conf.TLSCA, conf.TLSNodeCert, conf.TLSNodeKey), statFiles(conf.AdminCert, conf.AdminKey)
	loaded.fileStates.access = statFiles(conf.AdminReadTokenFile, conf.AdminWriteTokenFile, conf.AdminReadCA, conf.AdminWriteCA)
	var problems []error
	if conf.SecretFile != "" {
		var err error
		if loaded.secret, err = secret.Open(conf.SecretFile); err != nil {
			problems = append(problems, &FileError{"secret-file", err})
		}
	}
	if conf.TLSCA != "" {
		loaded.nodePKI = &secret.PKI{CA: conf.TLSCA, Cert: conf.TLSNodeCert, Key: conf.TLSNodeKey}
	}
	var accessErrs []error
	loaded.adminAccess, accessErrs = readAccess(conf)
	problems = append(problems, accessErrs...)
	if conf.AdminCert != "" {
		cert, err := secret.KeyPair(conf.AdminCert, conf.AdminKey)
		if err != nil {
			problems = append(problems, &FileError{"admin-cert", err})
		}
		loaded.adminCert.Store(&cert)
	}
	return loaded, errors.Join(problems...)
}

// applyTo adds the secret and the TLS configuration to the options of a node.
func (c *credentials) applyTo(options *node.Options) error {
	options.Secrets = c.secret
	nodeID := options.Dir.Node()
	c.nodeID = nodeID
	var trust *secret.Trust
	var err error
	switch {
	case c.nodePKI != nil:
		if trust, err = c.nodePKI.Load(nodeID); err != nil {
			return &FileError{"tls-node-cert", err}
		}
		c.nodeTLS = secret.NewTLSWrapper(trust)
		c.nodeCert.Store(trust.Leaf())
	case c.secret != nil:
		if trust, err = secret.Derive(c.secret.List(), nodeID); err != nil {
			return err
		}
		c.nodeTLS = secret.NewTLSWrapper(trust)
		c.secret.OnChange(func(secrets secret.List) error {
			next, err := secret.Derive(secrets, nodeID)
			if err == nil {
				c.nodeTLS.Replace(next)
			}
			return err
		})
	default:
		return nil
	}
	options.WrapClient, options.WrapServer = c.nodeTLS.Client, c.nodeTLS.Server
	return nil
}

// shareTickets lets the clients of a port resume TLS sessions at every node, if there is a secret.
func (c *credentials) shareTickets(listener *tlsListener) {
	if c.secret == nil {
		return
	}
	c.secret.OnChange(func(secrets secret.List) error {
		listener.shareTickets(secrets)
		return nil
	})
	listener.shareTickets(c.secret.List())
}

// readAccess reads the access rules of the admin port. It returns one error for each invalid file.
func readAccess(conf *config.Config) (auth.Access, []error) {
	access := auth.Access{Hosts: conf.AdminHosts}
	var problems []error
	for _, file := range []struct {
		flag, path string
		into       *auth.Tokens
	}{{"admin-read-token-file", conf.AdminReadTokenFile, &access.Read}, {"admin-write-token-file", conf.AdminWriteTokenFile, &access.Write}} {
		if file.path == "" {
			continue
		}
		content, err := secret.ReadTokens(file.path)
		if err != nil {
			problems = append(problems, &FileError{file.flag, err})
			continue
		}
		if *file.into, err = auth.ParseTokens(content); err != nil {
			problems = append(problems, &FileError{file.flag, fmt.Errorf("%s: %w", file.path, err)})
		}
	}
	for _, file := range []struct {
		flag, path string
		into       **x509.CertPool
	}{{"admin-read-ca", conf.AdminReadCA, &access.ReadCAs}, {"admin-write-ca", conf.AdminWriteCA, &access.WriteCAs}} {
		if file.path == "" {
			continue
		}
		cas, err := secret.ReadAuthorities(file.path)
		if err != nil {
			problems = append(problems, &FileError{file.flag, err})
			continue
		}
		*file.into = x509.NewCertPool()
		for _, ca := range cas {
			(*file.into).AddCert(ca)
		}
	}
	return access, problems
}

// wrapAdmin adds TLS to the admin port if it has a certificate.
func (c *credentials) wrapAdmin(ln net.Listener) net.Listener {
	if c.adminCert.Load() == nil {
		return ln
	}
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Package admin verifies the client certificate for each request.
		ClientAuth:     tls.RequestClientCert,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.adminCert.Load(), nil },
	})
}

// watchFiles reloads files that change, until ctx ends.
func (c *credentials) watchFiles(ctx context.Context, running *node.Node, adminServer *admin.Server) {
	var wg sync.WaitGroup
	if c.secret != nil {
		wg.Go(func() { c.secret.Run(ctx, c.log) })
	}
	watch := func(description string, state secret.FileState, reload func() error) {
		if state.Empty() {
			return
		}
		wg.Go(func() {
			state.Watch(ctx, func() {
				if err := reload(); err != nil {
					c.log.Error().Err(err).Str("what", description).Msg("changed file rejected, keeping old one")
					return
				}
				c.log.Info().Str("what", description).Msg("changed file loaded")
			})
		})
	}
	if c.nodePKI != nil {
		watch("certificates between nodes", c.fileStates.pki, func() error { return c.reloadPKI(running) })
	}
	watch("access to admin", c.fileStates.access, func() error { return c.reloadAccess(adminServer) })
	watch("certificate of admin", c.fileStates.cert, c.reloadAdminCert)
	wg.Wait()
}

// reloadAccess loads the tokens and client certificates for the admin port.
func (c *credentials) reloadAccess(adminServer *admin.Server) error {
	access, problems := readAccess(c.config)
	if err := errors.Join(problems...); err != nil {
		return err
	}
	adminServer.SetAccess(access)
	return nil
}

// reloadAdminCert loads the certificate of the admin port.
func (c *credentials) reloadAdminCert() error {
	cert, err := secret.KeyPair(c.config.AdminCert, c.config.AdminKey)
	if err != nil {
		return err
	}
	c.adminCert.Store(&cert)
	return nil
}

// reloadPKI loads the certificates for connections between nodes. It fails if only one of several
// files has been replaced yet; the next check then finds the other files.
func (c *credentials) reloadPKI(running *node.Node) error {
	trust, err := c.nodePKI.Load(c.nodeID)
	if err != nil {
		return err
	}
	c.nodeTLS.Replace(trust)
	c.nodeCert.Store(trust.Leaf())
	running.RenewPeers()
	return nil
}

// exposures returns the ports without protection, and the certificates in use.
func (p *Process) exposures() (exposed []diagnosis.Exposure, certs []diagnosis.Certificate) {
	return p.credentials.exposedPorts(), p.certificatesInUse()
}

// exposedPorts returns the ports that other machines can reach without protection.
func (c *credentials) exposedPorts() (exposed []diagnosis.Exposure) {
	conf := c.config
	isPeerLocal := address.IsLoopback(conf.Peer) && address.IsLoopback(conf.Gossip)
	if !isPeerLocal && !conf.UsesPeerTLS() {
		exposed = append(exposed, diagnosis.Exposure{
			Text:   fmt.Sprintf("anyone who reaches the gossip or peer port of node %s (%s, %s) controls the traffic", c.nodeID, conf.Gossip, conf.Peer),
			Remedy: "give the cluster a secret (--secret-file)",
		})
	}
	if isAdminLocal := address.IsLoopback(conf.Admin); isAdminLocal {
		return exposed
	}
	if !conf.RequiresAdminCredentials() {
		return append(exposed, diagnosis.Exposure{
			Text:   fmt.Sprintf("anyone who reaches the admin port of node %s (%s) can change the cluster", c.nodeID, conf.Admin),
			Remedy: "require a token (--admin-write-token-file)",
		})
	}
	if conf.AdminCert == "" {
		return append(exposed, diagnosis.Exposure{
			Text:   fmt.Sprintf("the admin tokens of node %s (%s) are sent unencrypted", c.nodeID, conf.Admin),
			Remedy: "use TLS (--admin-cert, --admin-key)",
		})
	}
	return exposed
}

// certificatesInUse returns the certificates in use. It omits those that are derived from the secret.
func (p *Process) certificatesInUse() (certs []diagnosis.Certificate) {
	add := func(purpose, flag string, leaf *x509.Certificate) {
		if leaf != nil {
			certs = append(certs, diagnosis.Certificate{Purpose: purpose, Flag: flag, ExpiresAt: leaf.NotAfter})
		}
	}
	if current := p.appPort.cert.Load(); current != nil {
		add("the app port", "tls-cert", current.tls.Leaf)
	}
	if current := p.credentials.adminCert.Load(); current != nil {
		add("the admin port", "admin-cert", current.Leaf)
	}
	if p.credentials.nodePKI != nil {
		add("other nodes", "tls-node-cert", p.credentials.nodeCert.Load())
	}
	return certs
}

// FileError is a problem with a file or directory of the settings.
type FileError struct {
	Flag string // name of the flag that contains the path, without dashes
	Err  error
}

// Error returns the flag and the cause.
func (e *FileError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// CheckFiles reads all configured files with credentials, as New does. It checks whether the data
// directory is writable, and whether the announcement of the node can fit into its gossip tags. It
// checks certificates for connections between nodes for the configured node ID, if there is one.
func CheckFiles(conf *config.Config) (problems []*FileError) {
	add := func(err error) {
		if problem, ok := errors.AsType[*FileError](err); ok {
			problems = append(problems, problem)
		}
	}
	loaded, err := loadCredentials(conf, zerolog.Nop())
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // a result of errors.Join
		for _, fileErr := range joined.Unwrap() {
			add(fileErr)
		}
	}
	if loaded.nodePKI != nil && conf.Node != "" && conf.TLSNodeCert != "" && conf.TLSNodeKey != "" {
		if _, err := loaded.nodePKI.Load(conf.Node); err != nil {
			add(&FileError{"tls-node-cert", err})
		}
	}
	if _, err := readCertificate(conf.TLSCert, conf.TLSKey); err != nil {
		add(err)
	}
	if err := checkAnnouncement(conf); err != nil {
		add(err)
	}
	if err := disk.CheckWritable(conf.Data); conf.Data != "" && err != nil {
		add(&FileError{"data", err})
	}
	return problems
}
