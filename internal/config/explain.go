package config

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Explain returns the configuration as YAML, every default spelled out. [Parse]
// reads it back to the same configuration.
func Explain(c *EvictdConfiguration) ([]byte, error) {
	written, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing configuration: %w", err)
	}
	return written, nil
}
