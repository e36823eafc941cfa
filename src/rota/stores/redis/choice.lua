-- Part of scripts that lease by kind and label: whether the caller can run a job. A body is JSON that
-- begins with the name, the kind and, if the job has one, the label; neither needs escapes. A body
-- that cannot be read is accepted: the lease finds out.
-- uses    ready
local kinds, labels

local function choose(kind_names, label_names)
  kinds, labels = as_set(kind_names), as_set(label_names)
end

local function accepts(body)
  if not body or not (kinds or labels) then return true end
  local _, last, kind = string.find(body, '"kind":"([^"]*)"')
  if not kind then return true end
  if kinds and not kinds[kind] then return false end
  local label = labels and string.match(body, '^,"label":"([^"]*)"', last + 1)
  return not label or labels[label]
end
