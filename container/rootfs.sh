#!/bin/sh
# rootfs.sh PROGRAM FOLDER: everything that an image of the program has, and
# nothing else: the program, the certificates of public authorities, and the
# libraries that it is linked to, with their licences.
set -eu
program=$1 root=$2
mkdir -p "$root/etc/ssl/certs" "$root/tmp"
chmod 1777 "$root/tmp"
install -m 0755 "$program" "$root/mash2"
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
# A static program has none: then ldd fails.
libraries=$(ldd "$program" 2>/dev/null | grep -o '/[^ ]*') || libraries=
for library in $libraries; do
	install -D -m 0755 "$library" "$root$library"
	package=$(dpkg -S "$(readlink -f "$library")" 2>/dev/null | head -1 | cut -d: -f1) || package=
	if [ -n "$package" ] && [ -e "/usr/share/doc/$package/copyright" ]; then
		install -D -m 0644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
	fi
done
