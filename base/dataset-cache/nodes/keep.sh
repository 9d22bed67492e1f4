#!/bin/sh
# Keeps the dataset cache of a node: a folder a team, below the first argument; in it a folder a dataset, called by its digest.
# The trainer touches the folder that it reads. Settings come from the environment, see settings.env.
set -eu
cache=$1

prepare() {
    for team in $TEAMS; do
        mkdir -p "$cache/$team"
        chown "$OWNER" "$cache/$team"
        chmod 0750 "$cache/$team"
    done
}

used() {
    df -P "$cache" | awk 'NR == 2 { sub("%", "", $5); print $5 }'
}

# Folders of datasets, the one that was not touched for longest first. Copies under way begin with a dot.
oldest() {
    for folder in "$cache"/*/*/; do
        [ -d "$folder" ] && stat -c '%Y %n' "${folder%/}"
    done | sort -n | cut -d ' ' -f 2-
}

# A folder is renamed before it is taken away, so that no run finds half of it.
evict() {
    oldest | while IFS= read -r folder; do
        [ "$(used)" -lt "$FULL" ] && break
        gone="$(dirname "$folder")/.gone-$(basename "$folder")"
        echo "disk at $(used) %: taking away $folder"
        mv "$folder" "$gone" && rm -rf "$gone"
    done
}

while :; do
    prepare
    evict
    [ "$EVERY" -gt 0 ] || break
    sleep "$EVERY"
done
