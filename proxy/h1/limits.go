package h1

// SetLimits replaces Options.MaxHeaderBytes, MaxTargetBytes and MaxHeaderLines, beginning with the
// next header. It must not be called during a read.
func (c *Conn) SetLimits(maxHeaderBytes, maxTargetBytes, maxHeaderLines int) {
	options := c.options
	options.MaxHeaderBytes, options.MaxTargetBytes, options.MaxHeaderLines = maxHeaderBytes, maxTargetBytes, maxHeaderLines
	c.options = options.withDefaults()
	c.in.maxSize = max(c.options.MaxHeaderBytes, c.options.ReadBuffer)
}
