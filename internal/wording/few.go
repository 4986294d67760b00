package wording

import "strings"

// Few names the first three, and says with dots that there are more.
func Few(names []string) string {
	const named = 3
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:named], ", ") + ", ..."
}
